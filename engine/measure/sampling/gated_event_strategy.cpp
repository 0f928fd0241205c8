// Runs iterations in gated chunks. A chunk has the iterations that the host issues while the gate holds the device
// back.
#include "measure/sampling/gated_event_strategy.hpp"

#include <algorithm>
#include <exception>

#include "measure/sampling/device_event_strategy.hpp"

namespace busbw {
namespace {

// Maximum number of chunks that give the device time. A batch that does not fit behind the gate needs several.
constexpr std::size_t kMaxTimedChunks = 8;

/// Closes a gate. The destructor opens it if `open` was not called.
class ClosedGate {
 public:
  explicit ClosedGate(Gate& gate) : gate_(gate) { gate_.close(); }
  ClosedGate(const ClosedGate&) = delete;
  ClosedGate& operator=(const ClosedGate&) = delete;
  ~ClosedGate() {
    if (is_open_) return;
    try {
      gate_.open();
    } catch (const std::exception&) {
      // A destructor must not throw. The exception that left the scope reports the failure.
    }
  }
  /// Opens the gate. Throws if that fails, unlike the destructor.
  void open() {
    is_open_ = true;
    gate_.open();
  }

 private:
  Gate& gate_;
  bool is_open_ = false;
};

}  // namespace

void GatedEventStrategy::sample(Samples& batch) {
  Gate* const gate = usable_gate();
  if (!gate || !fits_timestamps(*gate)) return sample_without_gate(batch);
  batch.clock = SampleClock::gated_device_events;
  if (runner_.uses_graphs())
    sample_graphs(*gate, batch);
  else
    sample_iterations(*gate, batch);
}

void GatedEventStrategy::sample_graphs(Gate& gate, Samples& batch) {
  OperationGraph& graph = runner_.batch_graph_with_timestamps(timestamps_);
  const std::size_t launches = sampled_launches(runner_);
  for (std::size_t number = 1; number <= launches; ++number) {
    run_gated(gate, [&] { graph.issue(); });
    if (number == launches) batch.clock_after = runner_.communicator().clock_state();
    runner_.communicator().synchronize();
    add_samples(runner_.iterations(), batch);
  }
}

void GatedEventStrategy::sample_iterations(Gate& gate, Samples& batch) {
  time_first_iteration(batch);
  const std::size_t max_count = capacity_of(gate).timestamped_iterations();
  for (std::size_t first = 0; first < runner_.iterations(); first += max_count) {
    const std::size_t count = std::min(max_count, runner_.iterations() - first);
    timestamps_.reset(count);
    run_gated(gate, [&] {
      for (std::size_t iteration = 0; iteration < count; ++iteration) {
        timestamps_.set_start(iteration);
        runner_.run_iteration(first + iteration);
      }
      timestamps_.set_last_end();
    });
    if (first + count == runner_.iterations()) batch.clock_after = runner_.communicator().clock_state();
    runner_.communicator().synchronize();
    add_samples(count, batch);
  }
}

void GatedEventStrategy::sample_without_gate(Samples& batch) {
  const double earlier_device_s = batch.device_s;
  const std::uint64_t earlier_device_operations = batch.device_operations;
  DeviceEventStrategy(runner_, TotalTime::separate).sample(batch);
  // The strategy without a gate has added device time. Discard it, because timestamps between short iterations include
  // launches.
  batch.device_s = earlier_device_s;
  batch.device_operations = earlier_device_operations;
}

void GatedEventStrategy::time_first_iteration(Samples& batch) {
  timestamps_.reset(1);
  runner_.world().barrier();
  timestamps_.set_start(0);
  runner_.run_iteration(0);
  timestamps_.set_last_end();
  runner_.communicator().synchronize();
  if (!batch.first_iteration_s) batch.first_iteration_s = timestamps_.seconds(0);
}

void GatedEventStrategy::add_samples(std::size_t iterations, Samples& batch) const {
  for (std::size_t iteration = 0; iteration < iterations; ++iteration)
    batch.operation_s.push_back(timestamps_.seconds(iteration) / runner_.operations_per_iteration());
}

void GatedEventStrategy::complete(Samples& samples) {
  Gate* const gate = usable_gate();
  if (!gate) return;
  const GateCapacity capacity = capacity_of(*gate);
  std::size_t max_count = capacity.iterations();
  if (runner_.uses_graphs()) {
    if (!capacity.fits_graph()) return;
    runner_.batch_graph();  // capture it before the gate is closed
    max_count = runner_.iterations();  // the graph runs all of them at once
  }
  if (max_count == 0) return;
  runner_.communicator().timestamps()->reset(2);
  std::size_t done = 0;
  for (std::size_t chunk = 0; chunk < kMaxTimedChunks && done < runner_.iterations(); ++chunk) {
    const std::size_t count = std::min(max_count, runner_.iterations() - done);
    samples.device_s += time_gated_iterations(*gate, done, count);
    samples.device_operations += count * static_cast<std::uint64_t>(runner_.operations_per_iteration());
    done += count;
  }
}

double GatedEventStrategy::time_gated_iterations(Gate& gate, std::size_t first, std::size_t count) {
  Timestamps& timestamps = *runner_.communicator().timestamps();
  run_gated(gate, [&] {
    timestamps.set(0);
    if (runner_.uses_graphs()) {
      runner_.batch_graph().issue();
    } else {
      for (std::size_t iteration = 0; iteration < count; ++iteration) runner_.run_iteration(first + iteration);
    }
    timestamps.set(1);
  });
  runner_.communicator().synchronize();
  return timestamps.seconds_between(0, 1);
}

void GatedEventStrategy::run_gated(Gate& gate, const std::function<void()>& operations) {
  runner_.world().enter(Phase::timing);
  ClosedGate closed(gate);
  // Ranks open their gates one after the other. This first operation, which is not timed, waits for the last gate.
  runner_.run_collective(0);
  operations();
  runner_.communicator().flush();
  runner_.world().barrier();
  closed.open();
}

Gate* GatedEventStrategy::usable_gate() const {
  // A rank that waits after each operation would wait for the closed gate.
  return runner_.waits() ? nullptr : runner_.communicator().gate();
}

GateCapacity GatedEventStrategy::capacity_of(const Gate& gate) const {
  const std::size_t calls = runner_.weighted_calls_per_run();
  const auto aggregated = static_cast<std::size_t>(runner_.settings().aggregated_iterations);
  return {gate.capacity(), {.per_run = calls, .per_iteration = calls * aggregated, .iterations = runner_.iterations()}};
}

bool GatedEventStrategy::fits_timestamps(const Gate& gate) const {
  const GateCapacity capacity = capacity_of(gate);
  return runner_.uses_graphs() ? capacity.fits_timestamped_graph() : capacity.timestamped_iterations() > 0;
}

}  // namespace busbw
