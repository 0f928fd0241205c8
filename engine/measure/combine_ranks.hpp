#pragma once
// Combines the samples of all ranks into one measurement.
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "measure/rank_report.hpp"

namespace busbw {

/// Method that combines ranks in the `time` column: nccl-tests' -a.
enum class RankAverage { rank0, mean, min, max };

/// Combines the times of all ranks, at least one, into one time in seconds.
double combine_ranks(std::span<const double> times_s, RankAverage average);

/// Host-clock time of each rank per operation.
std::vector<double> rank_times_s(std::span<const RankReport> ranks);
/// Part of rank_times_s() that each rank spent on issuing operations.
std::vector<double> rank_launch_times_s(std::span<const RankReport> ranks);
/// Device time of each rank per operation. Empty if a rank has none.
std::vector<double> rank_device_times_s(std::span<const RankReport> ranks);

/// Arrival of each rank at an iteration, in seconds after the first rank.
struct RankArrivals {
  std::vector<double> arrivals_s;                   // [rank]; empty if unknown
  std::vector<std::pair<double, double>> bounds_s;  // [rank]: 95 % interval of arrivals_s; empty if unknown
};

/// Arrivals at the first iteration after a barrier, from `Samples::first_iteration_s`: a rank that arrives later waits
/// less, so its first iteration is shorter. `operations_per_iteration` scales the device time of an operation to an
/// iteration. Unknown if a rank has no device time or no `first_iteration_s`.
RankArrivals first_arrivals(std::span<const RankReport> ranks, double operations_per_iteration);
/// Median arrivals over all iterations, from `Samples::start_delay`. Unknown if a rank has none. Bounds are unknown
/// below 6 iterations.
RankArrivals typical_arrivals(std::span<const RankReport> ranks);

/// Result of a check on all ranks. `exactness`: see CheckResult.
CheckResult combine_check_results(std::span<const RankReport> ranks, const std::string& exactness);

/// Time per operation of each iteration until its last rank ended: the maximum of `Samples::operation_s` over ranks.
std::vector<double> last_rank_s(std::span<const RankReport> ranks);

/// Like last_rank_s, separately for each process of `ranks_per_process` ranks.
std::vector<std::vector<double>> last_rank_of_process_s(std::span<const RankReport> ranks,
                                                        std::size_t ranks_per_process);

}  // namespace busbw
