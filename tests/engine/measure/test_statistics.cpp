#include "measure/statistics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support_random.hpp"

using namespace busbw;

namespace {

/// The smallest sample that is not exceeded by at least `percent` of the samples, found by counting.
double percentile_by_counting(const std::vector<double>& samples, std::size_t percent) {
  double best = INFINITY;
  for (const double candidate : samples) {
    std::size_t not_above = 0;
    for (const double sample : samples) not_above += sample <= candidate;
    if (not_above * 100 >= percent * samples.size()) best = std::min(best, candidate);
  }
  return best;
}

/// The median, found by removing the outermost samples in pairs.
double median_by_peeling(std::vector<double> samples) {
  while (samples.size() > 2) {
    samples.erase(std::ranges::min_element(samples));
    samples.erase(std::ranges::max_element(samples));
  }
  return samples.size() == 2 ? (samples[0] + samples[1]) / 2 : samples[0];
}

/// A row of Pascal's triangle: number of outcomes with k heads among the 2^n outcomes of n coins.
std::vector<std::uint64_t> pascal(std::size_t n) {
  std::vector<std::uint64_t> row{1};
  for (std::size_t i = 0; i < n; ++i) {
    row.push_back(0);
    for (std::size_t k = row.size() - 1; k > 0; --k) row[k] += row[k - 1];
  }
  return row;
}

/// The largest k with P(fewer than k of n coins show heads) <= 2.5 %, in integers. 0 if no k qualifies.
std::size_t exact_position(std::size_t n) {
  const auto row = pascal(n);
  const std::uint64_t all = std::uint64_t{1} << n;
  std::uint64_t fewer = 0;
  std::size_t position = 0;
  for (std::size_t k = 1; k <= n; ++k) {
    fewer += row[k - 1];
    if (fewer > all / 40 || fewer * 40 > all) break;
    position = k;
  }
  return position;
}

/// P(fewer than k of n coins show heads), term by term, starting at the logarithm of 0 heads.
long double tail(std::size_t n, std::size_t k) {
  long double log_term = -static_cast<long double>(n) * std::log(2.0L);  // of 0 heads
  long double sum = 0;
  for (std::size_t heads = 0; heads < k; ++heads) {
    sum += std::exp(log_term);
    log_term += std::log(static_cast<long double>(n - heads)) - std::log(static_cast<long double>(heads + 1));
  }
  return sum;
}

std::vector<double> random_samples(Random& random, std::size_t count) {
  std::vector<double> samples;
  const bool ties = random.below(3) == 0;
  for (std::size_t i = 0; i < count; ++i)
    samples.push_back(ties ? 1e-6 * static_cast<double>(random.below(4)) : 1e-6 * std::exp(8 * random.unit()));
  return samples;
}

}  // namespace

TEST_CASE("summarize: agrees with a slow computation of every figure") {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const auto samples = random_samples(random, 1 + random.below(130));
    const Statistics result = summarize(samples);
    long double sum = 0;
    for (const double sample : samples) sum += sample;
    const long double mean = sum / static_cast<long double>(samples.size());
    long double squares = 0;
    for (const double sample : samples) squares += (sample - mean) * (sample - mean);
    const auto deviation = static_cast<double>(std::sqrt(squares / static_cast<long double>(samples.size())));
    CAPTURE(samples.size());
    REQUIRE(result.samples == samples.size());
    REQUIRE(result.mean_s == doctest::Approx(static_cast<double>(mean)).epsilon(1e-12));
    REQUIRE(result.stdev_s == doctest::Approx(deviation).epsilon(1e-9));
    REQUIRE(result.cv == doctest::Approx(mean > 0 ? deviation / static_cast<double>(mean) : 0).epsilon(1e-9));
    REQUIRE(result.median_s == doctest::Approx(median_by_peeling(samples)).epsilon(1e-12));
    REQUIRE(result.p95_s == percentile_by_counting(samples, 95));
    REQUIRE(result.p99_s == percentile_by_counting(samples, 99));
    REQUIRE(result.min_s == *std::ranges::min_element(samples));
    REQUIRE(result.max_s == *std::ranges::max_element(samples));
  }
}

TEST_CASE("summarize: the figures are in order, and the interval encloses the median") {
  Random random(4);
  for (int round = 0; round < 1000; ++round) {
    const Statistics result = summarize(random_samples(random, 1 + random.below(300)));
    REQUIRE(result.min_s <= result.median_s);
    REQUIRE(result.median_s <= result.p95_s * (1 + 1e-15));
    REQUIRE(result.p95_s <= result.p99_s);
    REQUIRE(result.p99_s <= result.max_s);
    REQUIRE(result.min_s <= result.mean_s * (1 + 1e-12));
    REQUIRE(result.mean_s <= result.max_s * (1 + 1e-12));
    REQUIRE(result.stdev_s >= 0);
    REQUIRE(result.median_ci95_s.has_value() == (result.samples >= 6));
    if (!result.median_ci95_s) continue;
    REQUIRE(result.median_ci95_s->first <= result.median_s);
    REQUIRE(result.median_s <= result.median_ci95_s->second);
    REQUIRE(result.median_ci95_s->first >= result.min_s);
    REQUIRE(result.median_ci95_s->second <= result.max_s);
  }
}

TEST_CASE("summarize: the order of the samples does not matter") {
  Random random(5);
  auto samples = random_samples(random, 101);
  const Statistics before = summarize(samples);
  std::ranges::reverse(samples);
  const Statistics after = summarize(samples);
  CHECK(before.mean_s == after.mean_s);
  CHECK(before.stdev_s == after.stdev_s);
  CHECK(before.p99_s == after.p99_s);
}

TEST_CASE("summarize: one sample, and samples that are all the same") {
  const Statistics one = summarize(std::vector{2e-6});
  CHECK(one.mean_s == 2e-6);
  CHECK(one.median_s == 2e-6);
  CHECK(one.p99_s == 2e-6);
  CHECK(one.stdev_s == 0);
  CHECK_FALSE(one.median_ci95_s);
  const Statistics same = summarize(std::vector<double>(50, 4e-6));
  CHECK(same.cv == doctest::Approx(0));
  REQUIRE(same.median_ci95_s);
  CHECK(same.median_ci95_s->first == same.median_ci95_s->second);
  CHECK(summarize(std::vector{0.0, 0.0}).cv == 0);
}

TEST_CASE("median_ci95_positions: exact up to 60 samples") {
  for (std::size_t n = 0; n <= 60; ++n) {
    CAPTURE(n);
    const auto positions = median_ci95_positions(n);
    const std::size_t exact = exact_position(n);
    REQUIRE(positions.has_value() == (exact > 0));
    REQUIRE(positions.has_value() == (n >= 6));
    if (!positions) continue;
    CHECK(positions->first == exact);
    CHECK(positions->second == n + 1 - exact);
  }
}

TEST_CASE("median_ci95_positions: covers at least 95 % for every number of samples, and hardly more than needed") {
  for (std::size_t n = 61; n <= 200'000; n = n < 1500 ? n + 1 : n * 8 / 7) {
    CAPTURE(n);
    const auto positions = median_ci95_positions(n);
    REQUIRE(positions);
    REQUIRE(positions->second == n + 1 - positions->first);
    REQUIRE(tail(n, positions->first) <= 0.025L + 1e-12L);
    REQUIRE(tail(n, positions->first + 2) > 0.025L);
  }
}

TEST_CASE("median_ci95_positions: in simulations 95 % of the intervals contain the true median") {
  Random random(6);
  for (const std::size_t n : {std::size_t{6}, std::size_t{11}, std::size_t{20}, std::size_t{100}}) {
    constexpr int kRounds = 2000;
    int covered = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> samples;
      for (std::size_t i = 0; i < n; ++i) samples.push_back(std::exp(3 * random.unit()));  // median exp(1.5)
      const auto interval = *summarize(samples).median_ci95_s;
      covered += interval.first <= std::exp(1.5) && std::exp(1.5) <= interval.second;
    }
    CAPTURE(n);
    CHECK(covered > 0.935 * kRounds);  // three standard deviations below 95 %
  }
}
