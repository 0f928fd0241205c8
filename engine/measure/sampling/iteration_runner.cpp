// Loops over operations, iterations and graph launches, with the waits of -z.
#include "measure/sampling/iteration_runner.hpp"

#include <algorithm>

#include "measure/clock.hpp"

namespace busbw {
namespace {

// Values of nccl-tests' -z.
constexpr int kBarrierAfterOperation = 1;
constexpr int kBarrierAfterIteration = 3;

// Iterations between two progress reports to the watchdog, for loops in which every nanosecond counts.
constexpr std::size_t kProgressStride = 256;

}  // namespace

// Inlined, because two function calls per operation take a tenth of an operation of 0.3 us.
[[gnu::always_inline]] inline void IterationRunner::issue_operation(std::uint64_t number) {
  issued_.next(case_.buffers.region_bytes());
  case_.collective.run(communicator_,
                       case_.buffers.call(case_.placement, number, case_.dtype, case_.redop, case_.root));
}

bool IterationRunner::has_untimed_barriers() const { return settings_.blocking == kBarrierAfterIteration; }

double IterationRunner::warm_up() {
  const int count = std::max(1, settings_.warmup_iterations);
  const double start_s = monotonic_s();
  for (int number = 0; number < count; ++number) {
    world_.enter(Phase::warmup);
    run_operation(static_cast<std::uint64_t>(number));
  }
  communicator_.synchronize();
  expected_iteration_s_ = (monotonic_s() - start_s) / count * settings_.aggregated_iterations;
  return expected_iteration_s_;
}

void IterationRunner::align_ranks() {
  world_.barrier();
  const bool is_alone_on_host = world_.size() == 1 && !has_device_clock();
  if (is_alone_on_host) return;
  issue_operation(0);
  communicator_.synchronize();
}

void IterationRunner::run_operation(std::uint64_t number) {
  issue_operation(number);
  if (!waits()) return;
  communicator_.synchronize();
  if (settings_.blocking == kBarrierAfterOperation) world_.barrier();
}

void IterationRunner::run_iteration(std::uint64_t iteration) {
  const auto aggregated = static_cast<std::uint64_t>(settings_.aggregated_iterations);
  const std::uint64_t first = iteration * aggregated;
  // Operations that are waited for one by one cannot be started as one.
  const bool starts_as_group = aggregated > 1 && (!waits() || has_untimed_barriers());
  if (!starts_as_group) {
    for (std::uint64_t operation = 0; operation < aggregated; ++operation) run_operation(first + operation);
    return;
  }
  communicator_.begin_group();
  for (std::uint64_t operation = 0; operation < aggregated; ++operation) issue_operation(first + operation);
  communicator_.end_group();
  if (waits()) communicator_.synchronize();
}

void IterationRunner::run_batch() {
  const std::size_t count = iterations();
  const bool is_one_operation = settings_.aggregated_iterations == 1 && !waits();
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    if (iteration % kProgressStride == 0) world_.enter(Phase::timing);
    if (is_one_operation) {
      issue_operation(iteration);
    } else {
      run_iteration(iteration);
    }
  }
}

double IterationRunner::run_with_timestamps(IterationTimestamps& timestamps, std::size_t count) {
  double timed_s = 0;
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    world_.enter(Phase::timing);
    timestamps.set_start(iteration);
    if (!has_untimed_barriers()) {
      run_iteration(iteration);
      continue;
    }
    communicator_.flush();  // the host time begins after the timestamp is issued
    const double start_s = monotonic_s();
    run_iteration(iteration);
    timed_s += monotonic_s() - start_s;
    timestamps.set_end(iteration);
    world_.barrier();
  }
  timestamps.set_last_end();
  return timed_s;
}

HostTiming IterationRunner::time_batch() {
  const std::size_t launches = uses_graphs() ? static_cast<std::size_t>(settings_.graph_launches) : 1;
  if (uses_graphs()) batch_graph();  // captures the graph before the timed part
  align_ranks();
  const double start_s = monotonic_s();
  if (uses_graphs()) {
    for (std::size_t launch = 0; launch < launches; ++launch) {
      if (launch % kProgressStride == 0) world_.enter(Phase::timing);
      batch_graph_->issue();
    }
  } else {
    run_batch();
  }
  communicator_.flush();
  const double issued_s = monotonic_s();
  communicator_.synchronize();
  return {.elapsed_s = monotonic_s() - start_s,
          .issue_s = issued_s - start_s,
          .operations = launches * operations_per_batch()};
}

std::unique_ptr<OperationGraph> IterationRunner::capture(const std::function<void()>& operations) {
  communicator_.begin_capture();
  operations();
  auto graph = communicator_.end_capture();
  graph->issue();  // untimed, because the first launch of a graph may take longer
  communicator_.synchronize();
  return graph;
}

OperationGraph& IterationRunner::batch_graph() {
  if (!batch_graph_)
    batch_graph_ = capture([this] {
      for (std::size_t iteration = 0; iteration < iterations(); ++iteration) run_iteration(iteration);
    });
  return *batch_graph_;
}

OperationGraph& IterationRunner::batch_graph_with_timestamps(IterationTimestamps& timestamps) {
  if (!batch_graph_with_timestamps_) {
    timestamps.reset(iterations());
    batch_graph_with_timestamps_ = capture([&] {
      for (std::size_t iteration = 0; iteration < iterations(); ++iteration) {
        timestamps.set_start(iteration);
        run_iteration(iteration);
      }
      timestamps.set_last_end();
    });
  }
  return *batch_graph_with_timestamps_;
}

}  // namespace busbw
