// Runs a batch with device timestamps, and turns the timestamps into samples.
#include "measure/sampling/device_event_strategy.hpp"

#include <algorithm>

#include "measure/clock.hpp"

namespace busbw {
namespace {

// Minimum expected duration of a batch in which the device's clock state is queried. A query takes up to 1 ms, so a
// query does not delay a longer batch.
constexpr double kMinQueriedBatchS = 20e-3;
// Minimum number of iterations of such a batch. The expected duration may be too long, because the warm-up may include
// connecting.
constexpr std::size_t kMinQueriedIterations = 4;
// The host waits for each sampled launch of a graph. After this many samples, further launches would only take time.
constexpr std::size_t kMaxGraphSamples = 100'000;

}  // namespace

std::size_t sampled_launches(const IterationRunner& runner) {
  if (!runner.uses_graphs()) return 1;
  const std::size_t max_launches = std::max<std::size_t>(1, kMaxGraphSamples / runner.iterations());
  return std::min(static_cast<std::size_t>(runner.settings().graph_launches), max_launches);
}

void DeviceEventStrategy::sample(Samples& batch) {
  batch.clock = SampleClock::device_events;
  if (runner_.uses_graphs()) runner_.batch_graph_with_timestamps(timestamps_);
  const ClockStateQuery query = select_clock_state_query();
  const std::size_t launches = sampled_launches(runner_);
  for (std::size_t number = 1; number <= launches; ++number) {
    const HostTiming launch_timing = launch(batch, number == launches ? query : ClockStateQuery::never);
    if (total_source_ == TotalTime::from_samples) batch.total += launch_timing;
    add_samples(batch);
  }
}

DeviceEventStrategy::ClockStateQuery DeviceEventStrategy::select_clock_state_query() const {
  // If the total time comes from a separate batch, a query in this batch cannot delay the total.
  if (total_source_ == TotalTime::separate) return ClockStateQuery::while_running;
  const double expected_batch_s = runner_.expected_iteration_s() * static_cast<double>(runner_.iterations());
  const bool is_long_enough = runner_.iterations() >= kMinQueriedIterations && expected_batch_s > kMinQueriedBatchS;
  return is_long_enough ? ClockStateQuery::while_running : ClockStateQuery::after_completion;
}

HostTiming DeviceEventStrategy::launch(Samples& batch, ClockStateQuery query) {
  Communicator& communicator = runner_.communicator();
  if (!runner_.uses_graphs()) timestamps_.reset(runner_.iterations());
  runner_.align_ranks();
  const double start_s = monotonic_s();
  double timed_s = 0;
  if (runner_.uses_graphs()) {
    runner_.world().enter(Phase::timing);
    runner_.batch_graph_with_timestamps(timestamps_).issue();
  } else {
    timed_s = runner_.run_with_timestamps(timestamps_, runner_.iterations());
  }
  communicator.flush();
  const double issued_s = monotonic_s();
  if (query == ClockStateQuery::while_running) batch.clock_after = communicator.clock_state();
  communicator.synchronize();
  const double done_s = monotonic_s();
  if (query == ClockStateQuery::after_completion) batch.clock_after = communicator.clock_state();
  if (runner_.has_untimed_barriers())
    return {.elapsed_s = timed_s, .issue_s = timed_s, .operations = runner_.operations_per_batch()};
  return {.elapsed_s = done_s - start_s, .issue_s = issued_s - start_s, .operations = runner_.operations_per_batch()};
}

void DeviceEventStrategy::add_samples(Samples& batch) const {
  for (std::size_t iteration = 0; iteration < runner_.iterations(); ++iteration) {
    const double elapsed_s = timestamps_.seconds(iteration);
    const bool is_first = iteration == 0;
    if (is_first && !batch.first_iteration_s) batch.first_iteration_s = elapsed_s;
    // The first iteration includes a wait for other ranks. If no other iteration exists, its time is used nevertheless.
    const bool has_unwanted_wait = is_first && runner_.iterations() > 1;
    // Without a graph, one sample that is too long does no harm. With graphs, every launch would add such a sample.
    if (has_unwanted_wait && runner_.uses_graphs()) {
      ++batch.skipped_iterations;
      continue;
    }
    batch.operation_s.push_back(elapsed_s / runner_.operations_per_iteration());
    // With -z, timestamps include waits of the host.
    if (has_unwanted_wait || runner_.waits()) continue;
    batch.device_s += elapsed_s;
    batch.device_operations += static_cast<std::uint64_t>(runner_.operations_per_iteration());
  }
}

}  // namespace busbw
