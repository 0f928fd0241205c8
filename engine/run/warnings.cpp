// Rules for warnings about a measurement. Rules for late ranks are in late_ranks.cpp.
#include "run/warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

namespace busbw {
namespace {

// A clock moved if its values before and after the measurement differ by more than both of these: a fraction of the
// larger value, and a frequency.
constexpr double kMinClockChangeShare = 0.05;
constexpr double kMinClockChangeHz = 60e6;

void warn_missed_target(const RunSettings& settings, const Measurement& measurement,
                        std::vector<std::string>& warnings) {
  if (!settings.target_ci || measurement.stopped_by == StopReason::target_ci) return;
  warnings.push_back(
      fmt::format("the median's 95 % interval is wider than --target-ci {:g} % after {} samples; raise "
                  "--max-time, or check the machine for other load",
                  *settings.target_ci * 100, measurement.operation_s.size()));
}

/// Warns if several algorithms were reported, which must not happen: the ranks of an operation share one.
void warn_algorithms_differ(const Measurement& measurement, std::vector<std::string>& warnings) {
  if (measurement.algorithms.size() < 2) return;
  std::vector<std::string> texts;
  for (const auto& [algorithm, protocol, channels] : measurement.algorithms)
    texts.push_back(fmt::format("{}/{} with {} channels", algorithm, protocol, channels));
  warnings.push_back(
      fmt::format("the library reported several algorithms ({}); set the same NCCL_ variables for all ranks",
                  fmt::join(texts, ", ")));
}

void warn_late_ranks(const Measurement& measurement, std::vector<std::string>& warnings) {
  for (const LateRank& late : measurement.late_ranks) warnings.push_back(late.message);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

void warn_clock_moved(const Measurement& measurement, const std::vector<RankInfo>& ranks,
                      std::vector<std::string>& warnings) {
  std::vector<int> moved_ranks;
  double min_hz = std::numeric_limits<double>::infinity();
  double max_hz = 0;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (!clock.before_hz || !clock.after_hz) continue;
    const auto [low_hz, high_hz] = std::minmax(*clock.before_hz, *clock.after_hz);
    if (high_hz - low_hz <= std::max(kMinClockChangeShare * high_hz, kMinClockChangeHz)) continue;
    min_hz = std::min(min_hz, low_hz);
    max_hz = std::max(max_hz, high_hz);
    moved_ranks.push_back(ranks[i].rank);
  }
  if (moved_ranks.empty()) return;
  warnings.push_back(
      fmt::format("the clock of {} moved between {:.0f} and {:.0f} MHz; warm up longer (-w), or lock the clocks "
                  "(nvidia-smi -lgc) and measure again",
                  ranks_text(moved_ranks), min_hz / 1e6, max_hz / 1e6));
}

void warn_throttled(const Measurement& measurement, const std::vector<RankInfo>& ranks,
                    std::vector<std::string>& warnings) {
  std::vector<int> throttled_ranks;
  std::set<std::string> reasons;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (clock.throttle_reasons.empty()) continue;
    throttled_ranks.push_back(ranks[i].rank);
    reasons.insert(clock.throttle_reasons.begin(), clock.throttle_reasons.end());
  }
  if (throttled_ranks.empty()) return;
  warnings.push_back(
      fmt::format("the device of {} is slowed by {}; check power and temperature (nvidia-smi -q -d "
                  "PERFORMANCE,POWER,TEMPERATURE) before comparing this time",
                  ranks_text(throttled_ranks), fmt::join(reasons, ", ")));
}

}  // namespace

std::vector<std::string> measurement_warnings(const RunSettings& settings, const Measurement& measurement,
                                              const std::vector<RankInfo>& ranks) {
  std::vector<std::string> warnings;
  warn_missed_target(settings, measurement, warnings);
  warn_late_ranks(measurement, warnings);
  warn_clock_moved(measurement, ranks, warnings);
  warn_throttled(measurement, ranks, warnings);
  warn_algorithms_differ(measurement, warnings);
  return warnings;
}

}  // namespace busbw
