// Loops over runs, iterations and graph launches, with the waits of -z.
#include "measure/sampling/iteration_runner.hpp"

#include "measure/clock.hpp"

namespace busbw {
namespace {

// Values of nccl-tests' -z.
constexpr int kBarrierAfterRun = 1;
constexpr int kBarrierAfterIteration = 3;

// Iterations between two progress reports to the watchdog, for loops in which every nanosecond counts.
constexpr std::size_t kProgressStride = 256;

}  // namespace

// Inlined, because two function calls per run take a tenth of a run of 0.3 us.
[[gnu::always_inline]] inline void IterationRunner::issue_collective(std::uint64_t number) {
  issued_.next(case_.buffers.region_bytes());
  case_.collective.run(communicator_,
                       case_.buffers.call(case_.placement, number, case_.dtype, case_.redop, case_.root));
}

bool IterationRunner::has_untimed_barriers() const { return settings_.blocking == kBarrierAfterIteration; }

double IterationRunner::warm_up() {
  const int count = settings_.warmup_iterations;
  const double start_s = monotonic_s();
  for (int number = 0; number < count; ++number) {
    world_.enter(Phase::warmup);
    run_collective(static_cast<std::uint64_t>(number));
  }
  communicator_.synchronize();
  expected_iteration_s_ = (monotonic_s() - start_s) / count * settings_.aggregated_iterations;
  return expected_iteration_s_;
}

void IterationRunner::align_ranks() {
  world_.barrier();
  const bool is_alone_on_host = world_.size() == 1 && !has_device_clock();
  if (is_alone_on_host) return;
  issue_collective(0);
  communicator_.synchronize();
}

void IterationRunner::run_collective(std::uint64_t number) {
  issue_collective(number);
  if (!waits()) return;
  communicator_.synchronize();
  if (settings_.blocking == kBarrierAfterRun) world_.barrier();
}

void IterationRunner::run_iteration(std::uint64_t iteration) {
  const auto run_count = static_cast<std::uint64_t>(settings_.aggregated_iterations);
  const std::uint64_t first = iteration * run_count;
  // -z 3 waits only after the iteration. With any other wait, the runs cannot start together.
  const bool waits_after_each_run = waits() && !has_untimed_barriers();
  const bool starts_as_group = run_count > 1 && !waits_after_each_run;
  if (!starts_as_group) {
    for (std::uint64_t run = 0; run < run_count; ++run) run_collective(first + run);
    return;
  }
  communicator_.begin_group();
  for (std::uint64_t run = 0; run < run_count; ++run) issue_collective(first + run);
  communicator_.end_group();
  if (waits()) communicator_.synchronize();
}

void IterationRunner::run_batch() {
  const std::size_t count = iterations();
  const bool is_one_run = settings_.aggregated_iterations == 1 && !waits();
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    if (iteration % kProgressStride == 0) world_.enter(Phase::timing);
    if (is_one_run) {
      issue_collective(iteration);
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
    if (has_untimed_barriers())
      timed_s += run_with_untimed_barrier(timestamps, iteration);
    else
      run_iteration(iteration);
  }
  timestamps.set_last_end();
  return timed_s;
}

double IterationRunner::run_with_untimed_barrier(IterationTimestamps& timestamps, std::size_t iteration) {
  communicator_.flush();  // so that the host time does not include the start timestamp
  const double start_s = monotonic_s();
  run_iteration(iteration);
  const double elapsed_s = monotonic_s() - start_s;
  timestamps.set_end(iteration);
  world_.barrier();
  return elapsed_s;
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
