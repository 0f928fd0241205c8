#include "measure/sampling/sampler.hpp"

#include <algorithm>

#include "measure/clock.hpp"
#include "measure/sampling/closed_gate.hpp"

namespace busbw {
namespace {

// Values of nccl-tests' -z.
constexpr int kBarrierAfterOperation = 1;
constexpr int kBarrierAfterIteration = 3;

// Reading the clock and counting progress takes about 30 ns: 0.3 % of an operation of this length.
constexpr double kClockVisibleBelowS = 10e-6;
// Iterations of this length hide the launch behind the previous iteration.
constexpr double kLaunchVisibleBelowS = 300e-6;
// An event between two NCCL kernels costs a GPU's stream up to 7 us: 0.3 % of an operation of this length.
constexpr double kEventVisibleBelowS = 2.5e-3;
// Waiting for a graph before the next launch costs about 20 us, 0.4 % of a graph of this length. Its first iteration
// also waits for the launches of other ranks.
constexpr double kGraphLaunchVisibleBelowS = 5e-3;
// Querying a device's clocks takes up to 1 ms. A batch of this expected length hides the query, if it has enough
// iterations. The expected length alone is not reliable, because the warm-up may include connecting.
constexpr double kBatchHidesQueryS = 20e-3;
constexpr std::size_t kIterationsHideQuery = 4;
// Iterations between two progress reports to the watchdog, for loops in which every nanosecond counts.
constexpr std::size_t kUnstampedStride = 256;
// Maximum number of gated batches. More than one is needed if few iterations fit behind the gate.
constexpr std::size_t kMaxGatedBatches = 8;
// Graphs are launched and read one by one until there are this many samples.
constexpr std::size_t kGraphSamples = 100'000;

}  // namespace

// Inlined, because two function calls per operation take a tenth of an operation of 0.3 us.
[[gnu::always_inline]] inline void Sampler::call(std::uint64_t number) {
  issued_.next(case_.buffers.region_bytes());
  case_.collective.run(communicator_,
                       case_.buffers.call(case_.placement, number, case_.dtype, case_.redop, case_.root));
}

void Sampler::run_once(std::uint64_t number) {
  call(number);
  if (settings_.blocking == 0) return;
  communicator_.synchronize();
  if (settings_.blocking == kBarrierAfterOperation) world_.barrier();
}

void Sampler::run_iteration(std::uint64_t iteration) {
  const auto aggregated = static_cast<std::uint64_t>(settings_.aggregated_iterations);
  const std::uint64_t first = iteration * aggregated;
  // Operations that are waited for one by one cannot be started as one.
  const bool as_one = aggregated > 1 && (settings_.blocking == 0 || settings_.blocking == kBarrierAfterIteration);
  if (!as_one) {
    for (std::uint64_t operation = 0; operation < aggregated; ++operation) run_once(first + operation);
    return;
  }
  communicator_.begin_group();
  for (std::uint64_t operation = 0; operation < aggregated; ++operation) call(first + operation);
  communicator_.end_group();
  if (settings_.blocking != 0) communicator_.synchronize();
}

void Sampler::align_ranks() {
  world_.barrier();
  if (world_.size() == 1 && !on_device_) return;
  call(0);
  communicator_.synchronize();
}

double Sampler::warm_up() {
  const int count = std::max(1, settings_.warmup_iterations);
  const double start_s = monotonic_s();
  for (int number = 0; number < count; ++number) {
    world_.enter(Phase::warmup);
    run_once(static_cast<std::uint64_t>(number));
  }
  communicator_.synchronize();
  expected_iteration_s_ = (monotonic_s() - start_s) / count * settings_.aggregated_iterations;
  return expected_iteration_s_;
}

std::unique_ptr<OperationGraph> Sampler::capture(const std::function<void()>& operations) {
  communicator_.begin_capture();
  operations();
  return communicator_.end_capture();
}

void Sampler::capture_plain() {
  if (plain_) return;
  plain_ = capture([this] {
    for (std::size_t iteration = 0; iteration < iterations(); ++iteration) run_iteration(iteration);
  });
  // The first launch uploads the graph to the device.
  plain_->issue();
  communicator_.synchronize();
}

void Sampler::capture_stamped() {
  if (stamped_) return;
  Timestamps& timestamps = *device_timestamps_;
  timestamps.reset(iterations() + 1);
  stamped_ = capture([&] {
    for (std::size_t iteration = 0; iteration < iterations(); ++iteration) {
      timestamps.set(iteration);
      run_iteration(iteration);
    }
    timestamps.set(iterations());
  });
  // The first launch uploads the graph to the device.
  stamped_->issue();
  communicator_.synchronize();
}

std::size_t Sampler::stamped_launches() const {
  const std::size_t enough = std::max<std::size_t>(1, kGraphSamples / iterations());
  return captures_graph() ? std::min(static_cast<std::size_t>(settings_.graph_launches), enough) : 1;
}

void Sampler::stamped_batch(Samples& samples) {
  add_device_time(samples, launch_stamped(samples, ClockQuery::while_running));
}

void Sampler::batch_with_total(Samples& samples) {
  const BatchTimes times = launch_stamped(samples, clock_query_when_timed());
  add_device_time(samples, times);
  samples.total += times.total;
}

void Sampler::add_device_time(Samples& samples, const BatchTimes& times) {
  samples.device_s += times.device_s;
  samples.device_operations += times.device_operations;
}

void Sampler::gated_stamped_batch(Samples& samples) {
  Gate* const gate = gate_for_stamps();
  if (!gate) {
    launch_stamped(samples, ClockQuery::while_running);
    return;
  }
  samples.on_device = true;
  if (!captures_graph()) return gated_stamped_iterations(*gate, samples);
  capture_stamped();
  const std::size_t launches = stamped_launches();
  for (std::size_t launch = 0; launch < launches; ++launch)
    gated_stamped_launch(*gate, samples, launch + 1 == launches);
}

Sampler::BatchTimes Sampler::launch_stamped(Samples& samples, ClockQuery query_at_last) {
  samples.on_device = on_device_;
  if (captures_graph()) capture_stamped();
  const std::size_t launches = stamped_launches();
  BatchTimes all;
  for (std::size_t launch = 0; launch < launches; ++launch) {
    const BatchTimes times = launch_stamped_once(samples, launch + 1 == launches ? query_at_last : ClockQuery::never);
    all.total += times.total;
    all.device_s += times.device_s;
    all.device_operations += times.device_operations;
  }
  return all;
}

Sampler::ClockQuery Sampler::clock_query_when_timed() const {
  const bool is_hidden = iterations() >= kIterationsHideQuery &&
                         expected_iteration_s_ * static_cast<double>(iterations()) > kBatchHidesQueryS;
  return is_hidden ? ClockQuery::while_running : ClockQuery::after_completion;
}

Gate* Sampler::usable_gate() const {
  // A rank that waits after each operation would wait for the closed gate.
  return on_device_ && settings_.blocking == 0 ? communicator_.gate() : nullptr;
}

Gate* Sampler::gate_for_stamps() const {
  Gate* const gate = usable_gate();
  if (!gate) return nullptr;
  const GateCapacity capacity = capacity_of(*gate);
  return (captures_graph() ? capacity.fits_timestamped_graph() : capacity.timestamped_iterations() > 0) ? gate
                                                                                                        : nullptr;
}

void Sampler::run_gated(Gate& gate, const std::function<void()>& operations) {
  world_.enter(Phase::timing);
  ClosedGate closed(gate);
  // Ranks open their gates one after the other. This operation waits for the last gate.
  run_once(0);
  operations();
  communicator_.flush();
  world_.barrier();
  closed.open();
}

void Sampler::gated_stamped_launch(Gate& gate, Samples& samples, bool is_last) {
  run_gated(gate, [this] { stamped_->issue(); });
  if (is_last) samples.after = communicator_.condition();
  communicator_.synchronize();
  read_timestamps(samples, FirstIteration::began_with_all);
}

GateCapacity Sampler::capacity_of(const Gate& gate) const {
  const auto calls = static_cast<std::size_t>(case_.collective.calls_per_run(case_.ranks_of_largest_group));
  const auto aggregated = static_cast<std::size_t>(settings_.aggregated_iterations);
  return {gate.capacity(), {.per_operation = calls, .per_iteration = calls * aggregated, .iterations = iterations()}};
}

void Sampler::gated_stamped_iterations(Gate& gate, Samples& samples) {
  time_first_iteration(samples);
  const std::size_t max_count = capacity_of(gate).timestamped_iterations();
  for (std::size_t first = 0; first < iterations(); first += max_count) {
    const std::size_t count = std::min(max_count, iterations() - first);
    device_timestamps_->reset(count + 1);
    run_gated(gate, [&] {
      for (std::size_t iteration = 0; iteration < count; ++iteration) {
        device_timestamps_->set(iteration);
        run_iteration(first + iteration);
      }
      device_timestamps_->set(count);
    });
    if (first + count == iterations()) samples.after = communicator_.condition();
    communicator_.synchronize();
    for (std::size_t iteration = 0; iteration < count; ++iteration)
      samples.iteration_s.push_back(device_timestamps_->seconds_between(iteration, iteration + 1) /
                                    operations_per_iteration());
  }
}

void Sampler::time_first_iteration(Samples& samples) {
  device_timestamps_->reset(2);
  world_.barrier();
  device_timestamps_->set(0);
  run_iteration(0);
  device_timestamps_->set(1);
  communicator_.synchronize();
  if (!samples.first_iteration_s) samples.first_iteration_s = device_timestamps_->seconds_between(0, 1);
}

Sampler::BatchTimes Sampler::launch_stamped_once(Samples& samples, ClockQuery query) {
  const bool barrier_between = settings_.blocking == kBarrierAfterIteration;
  const std::size_t stride = barrier_between ? 2 : 1;
  Timestamps& timestamps = on_device_ ? *device_timestamps_ : host_timestamps_;
  if (!captures_graph()) timestamps.reset(iterations() * stride + 1);
  align_ranks();
  const double start_s = monotonic_s();
  double within_s = 0;  // sum of the times between barriers
  if (captures_graph()) {
    world_.enter(Phase::timing);
    stamped_->issue();
  } else {
    for (std::size_t iteration = 0; iteration < iterations(); ++iteration) {
      world_.enter(Phase::timing);
      timestamps.set(iteration * stride);
      if (barrier_between) communicator_.flush();  // the timestamp is not part of the time
      const double began_s = barrier_between ? monotonic_s() : 0;
      run_iteration(iteration);
      if (barrier_between) {
        within_s += monotonic_s() - began_s;
        timestamps.set(iteration * stride + 1);
        world_.barrier();
      }
    }
    timestamps.set(iterations() * stride);
  }
  communicator_.flush();
  const double issued_s = monotonic_s();
  if (on_device_ && query == ClockQuery::while_running) samples.after = communicator_.condition();
  communicator_.synchronize();
  const double done_s = monotonic_s();
  if (on_device_ && query == ClockQuery::after_completion) samples.after = communicator_.condition();
  BatchTimes times = read_timestamps(samples, FirstIteration::waited);
  // The device clock does not include launch overhead, which is part of the time.
  if (on_device_) {
    times.total.elapsed_s = barrier_between ? within_s : done_s - start_s;
    times.total.issue_s = barrier_between ? within_s : issued_s - start_s;
  }
  return times;
}

Sampler::BatchTimes Sampler::read_timestamps(Samples& samples, FirstIteration first) {
  // Iteration i lasts from timestamp i to the next. With a barrier between iterations, it lasts from timestamp 2 i to
  // the next.
  const std::size_t stride = settings_.blocking == kBarrierAfterIteration ? 2 : 1;
  const Timestamps& timestamps = on_device_ ? *device_timestamps_ : host_timestamps_;
  const bool is_device_time = on_device_ && settings_.blocking == 0;
  BatchTimes times{.total = {.operations = operations_per_launch()}};
  for (std::size_t iteration = 0; iteration < iterations(); ++iteration) {
    const double elapsed_s = timestamps.seconds_between(iteration * stride, iteration * stride + 1);
    const bool waited = first == FirstIteration::waited && iteration == 0;
    if (waited && !samples.first_iteration_s) samples.first_iteration_s = elapsed_s;
    times.total.elapsed_s += elapsed_s;
    times.total.issue_s += elapsed_s;
    // A graph has a first iteration in each launch. Its wait for other ranks would distort one sample per launch.
    if (waited && captures_graph() && iterations() > 1) {
      ++samples.skipped_iterations;
      continue;
    }
    samples.iteration_s.push_back(elapsed_s / operations_per_iteration());
    if (!is_device_time || (waited && iterations() > 1)) continue;
    times.device_s += elapsed_s;
    times.device_operations += static_cast<std::uint64_t>(operations_per_iteration());
  }
  return times;
}

VisibleOverhead Sampler::visible_overhead(double iteration_s) const {
  // With a barrier after each iteration, which is not timed, the clock must be read at each iteration.
  if (settings_.blocking == kBarrierAfterIteration) return VisibleOverhead::nothing;
  if (!on_device_) return iteration_s < kClockVisibleBelowS ? VisibleOverhead::timestamps : VisibleOverhead::nothing;
  if (captures_graph() && iteration_s * static_cast<double>(iterations()) < kGraphLaunchVisibleBelowS)
    return VisibleOverhead::launching;
  if (iteration_s < kLaunchVisibleBelowS) return VisibleOverhead::launching;
  return iteration_s < kEventVisibleBelowS ? VisibleOverhead::timestamps : VisibleOverhead::nothing;
}

void Sampler::run_plain() {
  const std::size_t count = iterations();
  const bool is_one_call = settings_.aggregated_iterations == 1 && settings_.blocking == 0;
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    if (iteration % kUnstampedStride == 0) world_.enter(Phase::timing);
    is_one_call ? call(iteration) : run_iteration(iteration);
  }
}

void Sampler::plain_batch(Samples& samples) {
  if (captures_graph()) capture_plain();
  const auto launches = static_cast<std::size_t>(settings_.graph_launches);
  align_ranks();
  const double start_s = monotonic_s();
  for (std::size_t launch = 0; launch < launches; ++launch) {
    if (launch % kUnstampedStride == 0) world_.enter(Phase::timing);
    plain_->issue();
  }
  if (!captures_graph()) run_plain();
  communicator_.flush();
  const double issued_s = monotonic_s();
  communicator_.synchronize();
  samples.total += {.elapsed_s = monotonic_s() - start_s,
                    .issue_s = issued_s - start_s,
                    .operations = std::max<std::size_t>(1, launches) * operations_per_launch()};
}

void Sampler::gated_total_batches(Samples& samples) {
  Gate* const gate = usable_gate();
  if (!gate) return;
  const GateCapacity capacity = capacity_of(*gate);
  const std::size_t graph_iterations = capacity.fits_graph() ? iterations() : 0;
  const std::size_t max_count = captures_graph() ? graph_iterations : capacity.iterations();
  if (max_count == 0) return;
  if (captures_graph()) capture_plain();
  device_timestamps_->reset(2);
  samples.device_s = 0;
  samples.device_operations = 0;
  std::size_t done = 0;
  for (std::size_t batch = 0; batch < kMaxGatedBatches && done < iterations(); ++batch) {
    const std::size_t count = std::min(max_count, iterations() - done);
    samples.device_s += gated_batch_s(*gate, done, count);
    samples.device_operations += count * static_cast<std::uint64_t>(operations_per_iteration());
    done += count;
  }
}

double Sampler::gated_batch_s(Gate& gate, std::size_t first, std::size_t count) {
  run_gated(gate, [&] {
    device_timestamps_->set(0);
    if (captures_graph()) {
      plain_->issue();
    } else {
      for (std::size_t iteration = 0; iteration < count; ++iteration) run_iteration(first + iteration);
    }
    device_timestamps_->set(1);
  });
  communicator_.synchronize();
  return device_timestamps_->seconds_between(0, 1);
}

}  // namespace busbw
