// Order statistics, and the distribution-free confidence interval of the median: two positions in the sorted samples.
#include "measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace busbw {
namespace {

constexpr double kTailProbability = 0.025;  // outside a 95 % interval, on each side
/// For more samples, the normal approximation is accurate to a fraction of a position.
constexpr std::size_t kMaxExactSamples = 1000;
constexpr double kNormalQuantile = 1.959964;  // quantile 0.975

/// Nearest-rank percentile, for `percent` from 1 to 100: the 95th of 20 samples is the 19th, that of 21 the 20th.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;  // rounded up
  return sorted[rank - 1];
}

double median_of(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> median_ci95_positions(std::size_t samples) {
  // Each of n samples is below the true median with probability 1/2. So the number X of samples below the median has
  // the distribution Binomial(n, 1/2), with mean n/2 and standard deviation sqrt(n)/2.
  const auto n = static_cast<double>(samples);
  if (samples > kMaxExactSamples) {
    const auto low = static_cast<std::size_t>(std::floor((n - kNormalQuantile * std::sqrt(n)) / 2));
    return std::pair{low, samples + 1 - low};
  }
  // Finds the largest position with P(X < position) <= 2.5 %.
  std::size_t position = 0;
  double log_probability = -n * std::log(2.0);             // of X = position
  double probability_up_to = std::exp(log_probability);  // of X <= position, so of X < position + 1
  while (probability_up_to <= kTailProbability) {
    // P(X = position + 1) follows from P(X = position). A formula with std::lgamma is no alternative: ranks are
    // threads, and std::lgamma writes a global variable.
    log_probability += std::log(static_cast<double>(samples - position) / static_cast<double>(position + 1));
    ++position;
    probability_up_to += std::exp(log_probability);
  }
  if (position == 0) return std::nullopt;
  return std::pair{position, samples + 1 - position};
}

Statistics summarize(std::span<const double> samples_s) {
  std::vector<double> sorted(samples_s.begin(), samples_s.end());
  std::ranges::sort(sorted);
  Statistics result;
  const auto count = static_cast<double>(sorted.size());
  result.samples = sorted.size();
  result.mean_s = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  result.median_s = median_of(sorted);
  result.p95_s = percentile(sorted, 95);
  result.p99_s = percentile(sorted, 99);
  result.min_s = sorted.front();
  result.max_s = sorted.back();
  double squares = 0;
  for (const double sample_s : sorted) squares += (sample_s - result.mean_s) * (sample_s - result.mean_s);
  result.stdev_s = std::sqrt(squares / count);
  result.cv = result.mean_s > 0 ? result.stdev_s / result.mean_s : 0;
  if (const auto positions = median_ci95_positions(sorted.size()))
    result.median_ci95_s = {sorted[positions->first - 1], sorted[positions->second - 1]};
  return result;
}

}  // namespace busbw
