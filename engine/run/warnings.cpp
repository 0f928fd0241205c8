// Rules for warnings about a measurement. Each rule compares ranks, or clocks before and after the measurement.
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
// A rank is slow to launch if its launch time exceeds the median rank's by this factor and by this difference.
constexpr double kSlowLaunchFactor = 2;
constexpr double kMinSlowLaunchS = 10e-6;
// A rank is late if it began after all others by at least this time, and by at least this fraction of the time of all
// operations.
constexpr double kMinLateS = 100e-6;
constexpr double kMinLateShare = 0.1;
// A clock moved if its values before and after differ by more than this fraction of the larger one and by more than
// this frequency.
constexpr double kMinClockChangeShare = 0.05;
constexpr double kMinClockChangeHz = 60e6;

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
  const double median_s = lower_median(launch_s);
  if (*slowest <= kSlowLaunchFactor * median_s || *slowest - median_s <= kMinSlowLaunchS) return std::nullopt;
  if (*slowest <= *timed.measurement.device_time_s) return std::nullopt;
  return Straggler{static_cast<std::size_t>(slowest - launch_s.begin()),
                   fmt::format("takes {:.1f} us to launch an operation, others take {:.1f} us and wait for it; check "
                               "its host for other load, and the CPU binding of its process",
                               *slowest * 1e6, median_s * 1e6)};
}

/// Finds a rank that began so late that waiting for it is a noticeable part of the time.
std::optional<Straggler> find_late_rank(const TimedMeasurement& timed) {
  const auto& arrivals_s = timed.measurement.rank_arrivals_s;
  if (arrivals_s.size() < 2 || timed.operations < kMinOperations) return std::nullopt;
  const auto last = std::ranges::max_element(arrivals_s);
  double second_last_s = 0;
  for (auto arrival = arrivals_s.begin(); arrival != arrivals_s.end(); ++arrival)
    if (arrival != last) second_last_s = std::max(second_last_s, *arrival);
  const double late_s = *last - second_last_s;
  const double share = late_s / (timed.measurement.time_s * timed.operations);
  if (late_s < kMinLateS || share < kMinLateShare) return std::nullopt;
  return Straggler{static_cast<std::size_t>(last - arrivals_s.begin()),
                   fmt::format("began {:.0f} us after all others, a delay of {:.0f} % of the time of all operations; "
                               "check for other load on its host and its device, or raise -n",
                               late_s * 1e6, share * 100)};
}

/// Adds a warning if `find_straggler` finds a rank. If both placements were measured, both must show the same rank,
/// because one alone may be chance.
void add_straggler_warning(std::optional<Straggler> (*find_straggler)(const TimedMeasurement&),
                           const TimedMeasurement& timed, const TimedMeasurement* other, const std::vector<int>& ranks,
                           std::vector<std::string>& warnings) {
  const auto straggler = find_straggler(timed);
  if (!straggler) return;
  if (other) {
    const auto other_straggler = find_straggler(*other);
    if (!other_straggler || other_straggler->rank != straggler->rank) return;
  }
  warnings.push_back(fmt::format("rank {} {}", ranks[straggler->rank], straggler->text));
}

/// Ranks as text: "rank 1" or "ranks 0 1 2".
std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

void warn_clock_moved(const Measurement& measurement, const std::vector<int>& ranks,
                      std::vector<std::string>& warnings) {
  std::vector<int> moved_ranks;
  double min_hz = 0;
  double max_hz = 0;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (!clock.before_hz || !clock.after_hz) continue;
    const auto [low_hz, high_hz] = std::minmax(*clock.before_hz, *clock.after_hz);
    if (high_hz - low_hz <= std::max(kMinClockChangeShare * high_hz, kMinClockChangeHz)) continue;
    min_hz = moved_ranks.empty() ? low_hz : std::min(min_hz, low_hz);
    max_hz = std::max(max_hz, high_hz);
    moved_ranks.push_back(ranks[i]);
  }
  if (moved_ranks.empty()) return;
  warnings.push_back(
      fmt::format("the clock of {} moved between {:.0f} and {:.0f} MHz; warm up longer (-w), or lock the clocks "
                  "(nvidia-smi -lgc) and measure again",
                  ranks_text(moved_ranks), min_hz / 1e6, max_hz / 1e6));
}

void warn_throttled(const Measurement& measurement, const std::vector<int>& ranks, std::vector<std::string>& warnings) {
  std::vector<int> throttled_ranks;
  std::set<std::string> reasons;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (clock.throttle_reasons.empty()) continue;
    throttled_ranks.push_back(ranks[i]);
    reasons.insert(clock.throttle_reasons.begin(), clock.throttle_reasons.end());
  }
  if (throttled_ranks.empty()) return;
  warnings.push_back(
      fmt::format("the device of {} is slowed by {}; check power and temperature (nvidia-smi -q -d "
                  "PERFORMANCE,POWER,TEMPERATURE) before comparing this time",
                  ranks_text(throttled_ranks), fmt::join(reasons, ", ")));
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
