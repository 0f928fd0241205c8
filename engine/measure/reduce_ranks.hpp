#pragma once
// Many ranks' samples become one measurement.
#include <cstddef>
#include <span>
#include <vector>

#include "measure/rank_report.hpp"

namespace busbw {

/// How the `time` column combines ranks: nccl-tests' -a.
enum class Average { rank0, mean, min, max };

/// One time per operation from a total of each rank, `Samples::total_s` or `Samples::issue_s`, over `operations`.
double combine_ranks(std::span<const RankReport> ranks, double Samples::* total, double operations, Average average);

/// For each iteration the time until its last rank ended: the maximum over ranks.
std::vector<double> last_rank_s(std::span<const RankReport> ranks);

/// As above, for each run of `ranks_per_process` ranks.
std::vector<std::vector<double>> last_rank_of_process_s(std::span<const RankReport> ranks,
                                                        std::size_t ranks_per_process);

}  // namespace busbw
