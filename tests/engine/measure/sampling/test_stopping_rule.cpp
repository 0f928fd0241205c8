#include "measure/sampling/stopping_rule.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace busbw;

namespace {

/// `n` samples with median 1 and a 95 % interval of about 1 +- `half_width`.
std::vector<double> spread(std::size_t n, double half_width) {
  std::vector<double> samples(n, 1);
  for (std::size_t i = 0; i < n / 2; ++i) {
    samples[i] -= half_width;
    samples[n - 1 - i] += half_width;
  }
  return samples;
}

}  // namespace

TEST_CASE("stopping: without target and budget one batch is enough") {
  CHECK(StoppingRule{}.decide(spread(1, 0.5), 1e9) == StopReason::iterations);
  CHECK(StoppingRule{}.decide(spread(20, 0.5), 0) == StopReason::iterations);
}

TEST_CASE("stopping: the target ends sampling once the interval is narrow enough") {
  const StoppingRule rule{.target_ci = 0.125, .max_time_s = {}};
  CHECK_FALSE(rule.decide(spread(21, 0.25), 1e9));
  CHECK(rule.decide(spread(21, 0.125), 0) == StopReason::target_ci);
  CHECK(rule.decide(spread(21, 0.0625), 0) == StopReason::target_ci);
}

TEST_CASE("stopping: below six samples no interval meets a target") {
  const StoppingRule rule{.target_ci = 0.99, .max_time_s = {}};
  CHECK_FALSE(rule.decide(spread(5, 0), 0));
  CHECK(rule.decide(spread(6, 0), 0) == StopReason::target_ci);
}

TEST_CASE("stopping: a time budget alone samples until it is spent") {
  const StoppingRule rule{.target_ci = {}, .max_time_s = 2};
  CHECK_FALSE(rule.decide(spread(100, 0), 1.99));
  CHECK(rule.decide(spread(1, 0), 2) == StopReason::max_time);
}

TEST_CASE("stopping: with target and budget, the first one stops; a met target takes precedence") {
  const StoppingRule rule{.target_ci = 0.1, .max_time_s = 2};
  CHECK_FALSE(rule.decide(spread(21, 0.2), 1));
  CHECK(rule.decide(spread(21, 0.2), 3) == StopReason::max_time);
  CHECK(rule.decide(spread(21, 0.05), 1) == StopReason::target_ci);
  CHECK(rule.decide(spread(21, 0.05), 3) == StopReason::target_ci);
}

TEST_CASE("stopping: the sample limit stops sampling that does not converge") {
  const StoppingRule rule{.target_ci = 0.001, .max_time_s = {}, .sample_limit = 100};
  CHECK_FALSE(rule.decide(spread(99, 0.5), 0));
  CHECK(rule.decide(spread(100, 0.5), 0) == StopReason::sample_limit);
  CHECK(rule.decide(spread(140, 0.5), 0) == StopReason::sample_limit);
  const StoppingRule timed{.target_ci = {}, .max_time_s = 1e9, .sample_limit = 100};
  CHECK(timed.decide(spread(100, 0), 0) == StopReason::sample_limit);
}
