// Combines the times of all ranks of a group, and finds how late each rank arrived.
#include "measure/combine_ranks.hpp"

#include <algorithm>
#include <numeric>

namespace busbw {

double combine_ranks(std::span<const double> times_s, RankAverage average) {
  switch (average) {
    case RankAverage::rank0: return times_s.front();
    case RankAverage::min: return std::ranges::min(times_s);
    case RankAverage::max: return std::ranges::max(times_s);
    case RankAverage::mean: break;
  }
  return std::accumulate(times_s.begin(), times_s.end(), 0.0) / static_cast<double>(times_s.size());
}

std::vector<double> rank_times_s(std::span<const RankReport> ranks) {
  std::vector<double> times;
  for (const RankReport& rank : ranks)
    times.push_back(rank.samples.total.elapsed_s / static_cast<double>(rank.samples.total.operations));
  return times;
}

std::vector<double> rank_launch_times_s(std::span<const RankReport> ranks) {
  std::vector<double> times;
  for (const RankReport& rank : ranks)
    times.push_back(rank.samples.total.issue_s / static_cast<double>(rank.samples.total.operations));
  return times;
}

std::vector<double> rank_device_times_s(std::span<const RankReport> ranks) {
  std::vector<double> times;
  for (const RankReport& rank : ranks) {
    if (rank.samples.device_operations == 0) return {};
    times.push_back(rank.samples.device_s / static_cast<double>(rank.samples.device_operations));
  }
  return times;
}

RankArrivals first_arrivals(std::span<const RankReport> ranks, double operations_per_iteration) {
  // A rank's first iteration takes the usual duration plus the wait for the last rank. So the first rank waits longest,
  // and the others arrive later by the difference of their waits.
  const std::vector<double> durations_s = rank_device_times_s(ranks);
  if (durations_s.empty()) return {};
  std::vector<double> waits_s;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& first_iteration_s = ranks[rank].samples.first_iteration_s;
    if (!first_iteration_s) return {};
    waits_s.push_back(*first_iteration_s - durations_s[rank] * operations_per_iteration);
  }
  const double longest_wait_s = std::ranges::max(waits_s);
  RankArrivals result;
  for (const double wait_s : waits_s) result.arrivals_s.push_back(longest_wait_s - wait_s);
  return result;
}

RankArrivals typical_arrivals(std::span<const RankReport> ranks) {
  RankArrivals result;
  for (const RankReport& rank : ranks) {
    if (!rank.samples.start_delay) return {};
    result.arrivals_s.push_back(rank.samples.start_delay->median_s);
  }
  const double first_s = std::ranges::min(result.arrivals_s);
  for (double& arrival_s : result.arrivals_s) arrival_s -= first_s;
  for (const RankReport& rank : ranks) {
    const auto& bounds_s = rank.samples.start_delay->median_ci95_s;
    if (!bounds_s) return {.arrivals_s = result.arrivals_s, .bounds_s = {}};
    result.bounds_s.emplace_back(bounds_s->first - first_s, bounds_s->second - first_s);
  }
  return result;
}

CheckResult combine_check_results(std::span<const RankReport> ranks, const std::string& exactness) {
  CheckResult result{.state = CheckResult::State::checked, .exactness = exactness};
  for (const RankReport& rank : ranks) {
    result.wrong_elements += rank.check_result.wrong_elements;
    if (rank.check_result.wrong_elements > 0) ++result.wrong_ranks;
    for (const WrongElement& wrong : rank.check_result.first_wrong)
      if (result.first_wrong.size() < Mismatches::kKept) result.first_wrong.push_back(wrong);
  }
  return result;
}

std::vector<double> last_rank_s(std::span<const RankReport> ranks) {
  std::vector<double> max_s = ranks.front().samples.operation_s;
  for (const RankReport& rank : ranks.subspan(1))
    std::ranges::transform(max_s, rank.samples.operation_s, max_s.begin(),
                           [](double a, double b) { return std::max(a, b); });
  return max_s;
}

std::vector<std::vector<double>> last_rank_of_process_s(std::span<const RankReport> ranks,
                                                        std::size_t ranks_per_process) {
  std::vector<std::vector<double>> processes;
  for (std::size_t first = 0; first < ranks.size(); first += ranks_per_process)
    processes.push_back(last_rank_s(ranks.subspan(first, ranks_per_process)));
  return processes;
}

}  // namespace busbw
