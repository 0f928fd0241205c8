#include "run/warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

namespace busbw {
namespace {

// What a rank does is told of a measurement over this many operations: in fewer, one interruption is much of the time.
constexpr double kEnoughOperations = 20;
// A rank is slow to launch where it takes this much longer than the middle one of the ranks, and this much longer.
constexpr double kSlowLaunch = 2;
constexpr double kSlowLaunchS = 10e-6;
// A rank is late where it began so long after all others, and that is this share of the whole measurement.
constexpr double kLateS = 100e-6;
constexpr double kLateShare = 0.1;
// A clock has moved where what it was before and what it was after differ by this share of the greater, and this much.
constexpr double kClockMoved = 0.05;
constexpr double kClockMovedHz = 60e6;

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void warn_missed_target(const RunSettings& settings, const Measurement& measurement, std::vector<std::string>& warnings) {
  if (!settings.target_ci || measurement.stopped_by == StopReason::target_ci) return;
  warnings.push_back(
      fmt::format("the median's 95 % interval is wider than --target-ci {:g} % after {} samples; give more "
                  "--max-time, or find what disturbs the machine",
                  *settings.target_ci * 100, measurement.iteration_s.size()));
}

/// One rank of a measurement that others have waited for.
struct Straggler {
  std::size_t rank;  // in the group
  std::string text;  // what is said of it, after its name
};

/// Others wait for a rank that takes longer to launch an operation than the operation takes.
std::optional<Straggler> find_slow_launcher(const TimedMeasurement& of) {
  const auto& launch_s = of.measurement.rank_launch_times_s;
  if (launch_s.size() < 2 || !of.measurement.device_time_s || of.operations < kEnoughOperations) return std::nullopt;
  const auto slowest = std::ranges::max_element(launch_s);
  const double usual_s = middle_of(launch_s);
  if (*slowest <= kSlowLaunch * usual_s || *slowest - usual_s <= kSlowLaunchS) return std::nullopt;
  if (*slowest <= *of.measurement.device_time_s) return std::nullopt;
  return Straggler{static_cast<std::size_t>(slowest - launch_s.begin()),
                fmt::format("takes {:.1f} us to launch an operation, others {:.1f} us, and they wait for it; look what "
                            "else runs on its host's processors, and to which its process is bound",
                            *slowest * 1e6, usual_s * 1e6)};
}

/// One rank began so late that waiting for it is a part of the time.
std::optional<Straggler> find_late_rank(const TimedMeasurement& of) {
  const auto& arrivals_s = of.measurement.rank_arrivals_s;
  if (arrivals_s.size() < 2 || of.operations < kEnoughOperations) return std::nullopt;
  const auto last = std::ranges::max_element(arrivals_s);
  double before_s = 0;  // when the last but one came
  for (auto each = arrivals_s.begin(); each != arrivals_s.end(); ++each)
    if (each != last) before_s = std::max(before_s, *each);
  const double late_s = *last - before_s;
  const double share = late_s / (of.measurement.time_s * of.operations);
  if (late_s < kLateS || share < kLateShare) return std::nullopt;
  return Straggler{static_cast<std::size_t>(last - arrivals_s.begin()),
                fmt::format("began {:.0f} us after all others, which is as long as {:.0f} % of all operations timed; "
                            "look what else runs on its host and its device, or take more operations (-n)",
                            late_s * 1e6, share * 100)};
}

/// Told where it is the same rank in both placements: once is chance.
void add_waited(std::optional<Straggler> (*rule)(const TimedMeasurement&), const TimedMeasurement& of, const TimedMeasurement* other,
                const std::vector<int>& ranks, std::vector<std::string>& warnings) {
  const auto waited = rule(of);
  if (!waited) return;
  if (other) {
    const auto again = rule(*other);
    if (!again || again->rank != waited->rank) return;
  }
  warnings.push_back(fmt::format("rank {} {}", ranks[waited->rank], waited->text));
}

/// "rank 1" or "ranks 0 1 2".
std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

void clock_moved(const Measurement& measurement, const std::vector<int>& ranks, std::vector<std::string>& warnings) {
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

void slowed(const Measurement& measurement, const std::vector<int>& ranks, std::vector<std::string>& warnings) {
  std::vector<int> held;
  std::set<std::string> reasons;
  for (std::size_t i = 0; i < measurement.rank_clocks.size(); ++i) {
    const DeviceClock& clock = measurement.rank_clocks[i];
    if (clock.throttle_reasons.empty()) continue;
    held.push_back(ranks[i]);
    reasons.insert(clock.throttle_reasons.begin(), clock.throttle_reasons.end());
  }
  if (held.empty()) return;
  warnings.push_back(
      fmt::format("the device of {} is slowed by {}; look at its power and temperature (nvidia-smi -q -d "
                  "PERFORMANCE,POWER,TEMPERATURE) before this time is compared with others",
                  ranks_text(held), fmt::join(reasons, ", ")));
}

}  // namespace

std::vector<std::string> measurement_warnings(const RunSettings& settings, const TimedMeasurement& of, const TimedMeasurement* other,
                                     const std::vector<int>& ranks) {
  std::vector<std::string> warnings;
  warn_missed_target(settings, of.measurement, warnings);
  add_waited(find_slow_launcher, of, other, ranks, warnings);
  add_waited(find_late_rank, of, other, ranks, warnings);
  clock_moved(of.measurement, ranks, warnings);
  slowed(of.measurement, ranks, warnings);
  return warnings;
}

}  // namespace busbw
