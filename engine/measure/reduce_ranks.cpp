#include "measure/reduce_ranks.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace busbw {
namespace {

std::vector<double> maxima(std::span<const Samples> ranks) {
  std::vector<double> last = ranks.front().iteration_s;
  for (const Samples& rank : ranks.subspan(1))
    std::ranges::transform(last, rank.iteration_s, last.begin(), [](double a, double b) { return std::max(a, b); });
  return last;
}

}  // namespace

double combine_ranks(const std::vector<Samples>& ranks, double operations, Average average) {
  const auto shorter = [](const Samples& a, const Samples& b) { return a.total_s < b.total_s; };
  switch (average) {
    case Average::rank0: return ranks.front().total_s / operations;
    case Average::min: return std::ranges::min_element(ranks, shorter)->total_s / operations;
    case Average::max: return std::ranges::max_element(ranks, shorter)->total_s / operations;
    case Average::mean: break;
  }
  const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0,
                                     [](double total, const Samples& rank) { return total + rank.total_s; });
  return sum / static_cast<double>(ranks.size()) / operations;
}

std::vector<double> last_rank_s(const std::vector<Samples>& ranks) { return maxima(ranks); }

std::vector<std::vector<double>> last_rank_of_process_s(const std::vector<Samples>& ranks, std::size_t ranks_per_process) {
  std::vector<std::vector<double>> processes;
  for (std::size_t first = 0; first < ranks.size(); first += ranks_per_process)
    processes.push_back(maxima(std::span(ranks).subspan(first, ranks_per_process)));
  return processes;
}

}  // namespace busbw
