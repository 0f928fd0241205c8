// Runs a batch with host timestamps, and turns them into samples and, for TotalTime::from_samples, the total time.
#include "measure/sampling/host_clock_strategy.hpp"

namespace busbw {

void HostClockStrategy::sample(Samples& batch) {
  timestamps_.reset(runner_.iterations());
  runner_.align_ranks();
  runner_.run_with_timestamps(timestamps_);
  runner_.communicator().synchronize();

  double total_s = 0;
  for (std::size_t iteration = 0; iteration < runner_.iterations(); ++iteration) {
    const double elapsed_s = timestamps_.seconds(iteration);
    // first_iteration_s is per iteration, iteration_s per operation.
    if (!batch.first_iteration_s) batch.first_iteration_s = elapsed_s;
    batch.iteration_s.push_back(elapsed_s / runner_.operations_per_iteration());
    total_s += elapsed_s;
  }
  // A call returns when its operation is done, so the issue time equals the elapsed time.
  if (total_ == TotalTime::from_samples)
    batch.total += {.elapsed_s = total_s, .issue_s = total_s, .operations = runner_.operations_per_batch()};
}

}  // namespace busbw
