#pragma once
// Many ranks' samples become one measurement.
#include <cstddef>
#include <span>
#include <vector>

#include "measure/rank_report.hpp"

namespace busbw {

/// How the `time` column combines ranks: nccl-tests' -a.
enum class RankAverage { rank0, mean, min, max };

/// One time from one of each rank.
double combine_ranks(std::span<const double> times_s, RankAverage average);

/// Of each rank, per operation: the host clock's total, and what of it issuing took.
std::vector<double> rank_times_s(std::span<const RankReport> ranks);
std::vector<double> rank_launch_times_s(std::span<const RankReport> ranks);
/// The device's time of each rank, per operation; empty where one has none.
std::vector<double> rank_device_times_s(std::span<const RankReport> ranks);
/// How long after the first rank each began the first iteration after a barrier; empty without device times.
std::vector<double> rank_arrivals_s(std::span<const RankReport> ranks, double operations_per_iteration);

/// For each iteration the time until its last rank ended: the maximum over ranks.
std::vector<double> last_rank_s(std::span<const RankReport> ranks);

/// As above, for each run of `ranks_per_process` ranks.
std::vector<std::vector<double>> last_rank_of_process_s(std::span<const RankReport> ranks,
                                                        std::size_t ranks_per_process);

}  // namespace busbw
