#include "run/warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

namespace busbw {
namespace {

// Minimum number of operations for warnings about ranks. With fewer, one interruption is a large part of the time.
constexpr double kMinOperations = 20;
// A rank is slow to launch if it takes this many times the median rank, and this much longer.
constexpr double kSlowLaunchFactor = 2;
constexpr double kSlowLaunchS = 10e-6;
// A rank is late if it began this long after all others, and if the delay is this fraction of the whole measurement.
constexpr double kLateS = 100e-6;
constexpr double kLateShare = 0.1;
// A clock moved if its values before and after differ by this fraction of the larger one, and by this much.
constexpr double kClockMoved = 0.05;
constexpr double kClockMovedHz = 60e6;

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void warn_missed_target(const RunSettings& settings, const Measurement& measurement,
                        std::vector<std::string>& warnings) {
  if (!settings.target_ci || measurement.stopped_by == StopReason::target_ci) return;
  warnings.push_back(
      fmt::format("the median's 95 % interval is wider than --target-ci {:g} % after {} samples; raise "
                  "--max-time, or check the machine for other load",
                  *settings.target_ci * 100, measurement.iteration_s.size()));
}

/// A rank that others waited for in a measurement.
struct Straggler {
  std::size_t rank;  // index in the group
  std::string text;  // text of the warning after the rank's name
};

/// Finds a rank that takes longer to launch an operation than the operation takes, so that others wait for it.
std::optional<Straggler> find_slow_launcher(const TimedMeasurement& timed) {
  const auto& launch_s = timed.measurement.rank_launch_times_s;
  if (launch_s.size() < 2 || !timed.measurement.device_time_s || timed.operations < kMinOperations) return std::nullopt;
  const auto slowest = std::ranges::max_element(launch_s);
  const double usual_s = lower_median(launch_s);
  if (*slowest <= kSlowLaunchFactor * usual_s || *slowest - usual_s <= kSlowLaunchS) return std::nullopt;
  if (*slowest <= *timed.measurement.device_time_s) return std::nullopt;
  return Straggler{static_cast<std::size_t>(slowest - launch_s.begin()),
                   fmt::format("takes {:.1f} us to launch an operation, others take {:.1f} us and wait for it; check "
                               "its host for other load, and the CPU binding of its process",
                               *slowest * 1e6, usual_s * 1e6)};
}

/// Finds a rank that began so late that waiting for it is a noticeable part of the time.
std::optional<Straggler> find_late_rank(const TimedMeasurement& timed) {
  const auto& arrivals_s = timed.measurement.rank_arrivals_s;
  if (arrivals_s.size() < 2 || timed.operations < kMinOperations) return std::nullopt;
  const auto last = std::ranges::max_element(arrivals_s);
  double before_s = 0;  // arrival of the last but one
  for (auto each = arrivals_s.begin(); each != arrivals_s.end(); ++each)
    if (each != last) before_s = std::max(before_s, *each);
  const double late_s = *last - before_s;
  const double share = late_s / (timed.measurement.time_s * timed.operations);
  if (late_s < kLateS || share < kLateShare) return std::nullopt;
  return Straggler{static_cast<std::size_t>(last - arrivals_s.begin()),
                   fmt::format("began {:.0f} us after all others, a delay of {:.0f} % of the time of all operations; "
                               "check for other load on its host and its device, or raise -n",
                               late_s * 1e6, share * 100)};
}

/// Warns only if both placements show the same rank, because one alone may be chance.
void add_straggler_warning(std::optional<Straggler> (*rule)(const TimedMeasurement&), const TimedMeasurement& timed,
                           const TimedMeasurement* other, const std::vector<int>& ranks,
                           std::vector<std::string>& warnings) {
  const auto straggler = rule(timed);
  if (!straggler) return;
  if (other) {
    const auto again = rule(*other);
    if (!again || again->rank != straggler->rank) return;
  }
  warnings.push_back(fmt::format("rank {} {}", ranks[straggler->rank], straggler->text));
}

/// Ranks as text: "rank 1" or "ranks 0 1 2".
std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

void warn_clock_moved(const Measurement& measurement, const std::vector<int>& ranks,
                      std::vector<std::string>& warnings) {
  std::vector<int> moved;
  double min_hz = 0;
  double max_hz = 0;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (!clock.before_hz || !clock.after_hz) continue;
    const auto [low_hz, high_hz] = std::minmax(*clock.before_hz, *clock.after_hz);
    if (high_hz - low_hz <= std::max(kClockMoved * high_hz, kClockMovedHz)) continue;
    min_hz = moved.empty() ? low_hz : std::min(min_hz, low_hz);
    max_hz = std::max(max_hz, high_hz);
    moved.push_back(ranks[i]);
  }
  if (moved.empty()) return;
  warnings.push_back(
      fmt::format("the clock of {} moved between {:.0f} and {:.0f} MHz; warm up longer (-w), or lock the clocks "
                  "(nvidia-smi -lgc) and measure again",
                  ranks_text(moved), min_hz / 1e6, max_hz / 1e6));
}

void warn_throttled(const Measurement& measurement, const std::vector<int>& ranks, std::vector<std::string>& warnings) {
  std::vector<int> throttled;
  std::set<std::string> reasons;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (clock.throttle_reasons.empty()) continue;
    throttled.push_back(ranks[i]);
    reasons.insert(clock.throttle_reasons.begin(), clock.throttle_reasons.end());
  }
  if (throttled.empty()) return;
  warnings.push_back(
      fmt::format("the device of {} is slowed by {}; check power and temperature (nvidia-smi -q -d "
                  "PERFORMANCE,POWER,TEMPERATURE) before comparing this time",
                  ranks_text(throttled), fmt::join(reasons, ", ")));
}

}  // namespace

std::vector<std::string> measurement_warnings(const RunSettings& settings, const TimedMeasurement& timed,
                                              const TimedMeasurement* other, const std::vector<int>& ranks) {
  std::vector<std::string> warnings;
  warn_missed_target(settings, timed.measurement, warnings);
  add_straggler_warning(find_slow_launcher, timed, other, ranks, warnings);
  add_straggler_warning(find_late_rank, timed, other, ranks, warnings);
  warn_clock_moved(timed.measurement, ranks, warnings);
  warn_throttled(timed.measurement, ranks, warnings);
  return warnings;
}

}  // namespace busbw
