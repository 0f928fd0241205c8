// Runs a batch with host timestamps, and turns them into samples and, for TotalTime::from_samples, the total time.
#include "measure/sampling/host_clock_strategy.hpp"

#include <algorithm>

#include "measure/statistics.hpp"

namespace busbw {
namespace {

// Maximum number of iterations that are repeated to measure the start delay. Their time is not limited by a stopping
// rule, and the interval of the median hardly improves with more.
constexpr std::size_t kMaxDelayIterations = 100;

}  // namespace

void HostClockStrategy::sample(Samples& batch) {
  const bool measures_delay = total_source_ == TotalTime::from_samples;
  timestamps_.reset(runner_.iterations());
  if (measures_delay) delay_communicator_.reserve(runner_.iterations());
  runner_.align_ranks();
  IterationRunner& sampled_runner = measures_delay ? delay_runner_ : runner_;
  sampled_runner.run_with_timestamps(timestamps_, runner_.iterations());
  runner_.communicator().synchronize();

  double total_s = 0;
  for (std::size_t iteration = 0; iteration < runner_.iterations(); ++iteration) {
    const double elapsed_s = timestamps_.seconds(iteration);
    if (!batch.first_iteration_s) batch.first_iteration_s = elapsed_s;
    batch.operation_s.push_back(elapsed_s / runner_.operations_per_iteration());
    total_s += elapsed_s;
  }
  // A call returns when its operation is done, so the issue time equals the elapsed time.
  if (total_source_ == TotalTime::from_samples)
    batch.total += {.elapsed_s = total_s, .issue_s = total_s, .operations = runner_.operations_per_batch()};
}

void HostClockStrategy::complete(Samples& samples) {
  if (total_source_ == TotalTime::separate) {
    const std::size_t count = std::min(runner_.iterations(), kMaxDelayIterations);
    timestamps_.reset(count);
    delay_communicator_.reserve(count);
    delay_runner_.run_with_timestamps(timestamps_, count);
  }
  if (delay_communicator_.delays_s().empty()) return;
  const Statistics delay = summarize(delay_communicator_.delays_s());
  samples.start_delay = StartDelay{.median_s = delay.median_s, .median_ci95_s = delay.median_ci95_s};
}

}  // namespace busbw
