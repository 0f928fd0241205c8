#include "measure/reduce_ranks.hpp"

#include <algorithm>
#include <numeric>

namespace busbw {
double combine_ranks(std::span<const RankReport> ranks, double Samples::* total, double operations, Average average) {
  const auto total_s = [total](const RankReport& rank) { return rank.samples.*total; };
  switch (average) {
    case Average::rank0: return total_s(ranks.front()) / operations;
    case Average::min: return total_s(*std::ranges::min_element(ranks, {}, total_s)) / operations;
    case Average::max: return total_s(*std::ranges::max_element(ranks, {}, total_s)) / operations;
    case Average::mean: break;
  }
  const double sum_s = std::accumulate(ranks.begin(), ranks.end(), 0.0,
                                       [&](double sum, const RankReport& rank) { return sum + total_s(rank); });
  return sum_s / static_cast<double>(ranks.size()) / operations;
}

std::vector<double> last_rank_s(std::span<const RankReport> ranks) {
  std::vector<double> last = ranks.front().samples.iteration_s;
  for (const RankReport& rank : ranks.subspan(1))
    std::ranges::transform(last, rank.samples.iteration_s, last.begin(),
                           [](double a, double b) { return std::max(a, b); });
  return last;
}

std::vector<std::vector<double>> last_rank_of_process_s(std::span<const RankReport> ranks,
                                                        std::size_t ranks_per_process) {
  std::vector<std::vector<double>> processes;
  for (std::size_t first = 0; first < ranks.size(); first += ranks_per_process)
    processes.push_back(last_rank_s(ranks.subspan(first, ranks_per_process)));
  return processes;
}

}  // namespace busbw
