// Rules for late ranks. Each rule compares one rank with the others of its group. The arrival of a rank is its start of
// an iteration, in seconds after the first rank (Measurement::rank_arrivals_s).
#include "run/late_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace busbw {
namespace {

// Minimum number of operations for slow_launch and late_first, which compare single values instead of confidence
// intervals. With fewer operations, one interruption is a large part of the time.
constexpr double kMinOperations = 20;
// A rank is slow to launch if its launch time exceeds the median rank's by this factor and by this difference.
constexpr double kSlowLaunchFactor = 2;
constexpr double kMinSlowLaunchS = 10e-6;
// A rank is late at the first iteration (late_first) if it began after all others by at least this time.
constexpr double kMinLateFirstS = 100e-6;
// A rank is late at each iteration (late_start) if the 95 % interval of its arrival lies above the intervals of all
// others by at least this time. A rank that nothing delays arrives within 1 us.
constexpr double kMinLateStartS = 10e-6;
// Minimum delay, as a fraction of the time of all operations (late_first) or of one iteration (late_start).
constexpr double kMinLateShare = 0.1;

/// A late rank as an index in its group, with the text that follows its name.
struct Straggler {
  std::size_t index;
  double late_s;  // see LateRank
  std::string text;
};

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct LastArrival {
  std::size_t index;  // of the last rank
  double second_last_s;  // arrival of the rank before the last one
};

/// Finds the last of at least two arrivals.
LastArrival find_last_arrival(const std::vector<double>& arrivals_s) {
  const auto last = std::ranges::max_element(arrivals_s);
  double second_last_s = -std::numeric_limits<double>::infinity();
  for (auto arrival = arrivals_s.begin(); arrival != arrivals_s.end(); ++arrival)
    if (arrival != last) second_last_s = std::max(second_last_s, *arrival);
  return {static_cast<std::size_t>(last - arrivals_s.begin()), second_last_s};
}

/// Finds a rank that starts each iteration so late that the wait for this rank is a large part of the iteration.
std::optional<Straggler> find_late_start(const TimedMeasurement& timed) {
  const Measurement& measurement = timed.measurement;
  const auto& bounds_s = measurement.rank_arrival_bounds_s;
  if (bounds_s.size() < 2) return std::nullopt;
  const auto [last, second_last_s] = find_last_arrival(measurement.rank_arrivals_s);
  const double last_low_s = bounds_s[last].first;
  double others_high_s = 0;
  for (std::size_t rank = 0; rank < bounds_s.size(); ++rank)
    if (rank != last) others_high_s = std::max(others_high_s, bounds_s[rank].second);
  const double interval_gap_s = last_low_s - others_high_s;
  const double iteration_s = measurement.time_s * timed.operations_per_iteration;
  if (interval_gap_s < kMinLateStartS || interval_gap_s < kMinLateShare * iteration_s) return std::nullopt;
  const double late_s = measurement.rank_arrivals_s[last] - second_last_s;
  return Straggler{last, late_s,
                   fmt::format("starts each iteration {:.0f} us after all others, {:.0f} % of its time; check for "
                               "other load on its host, and the CPU binding of its process",
                               late_s * 1e6, std::min(1.0, late_s / iteration_s) * 100)};
}

/// Finds a rank that takes longer to launch an operation than the operation takes, so that the other ranks wait.
std::optional<Straggler> find_slow_launch(const TimedMeasurement& timed) {
  const auto& launch_s = timed.measurement.rank_launch_times_s;
  if (launch_s.size() < 2 || !timed.measurement.device_time_s || timed.operations < kMinOperations) return std::nullopt;
  const auto slowest = std::ranges::max_element(launch_s);
  const double median_s = lower_median(launch_s);
  const bool is_slow = *slowest > kSlowLaunchFactor * median_s && *slowest - median_s > kMinSlowLaunchS;
  const bool do_others_wait = *slowest > *timed.measurement.device_time_s;
  if (!is_slow || !do_others_wait) return std::nullopt;
  return Straggler{static_cast<std::size_t>(slowest - launch_s.begin()), *slowest - median_s,
                   fmt::format("takes {:.1f} us to launch an operation, others take {:.1f} us and wait for it; check "
                               "its host for other load, and the CPU binding of its process",
                               *slowest * 1e6, median_s * 1e6)};
}

/// Finds a rank that began so late that the wait for this rank is a noticeable part of the time of all operations.
std::optional<Straggler> find_late_first(const TimedMeasurement& timed) {
  const auto& arrivals_s = timed.measurement.rank_arrivals_s;
  // With the host clock, arrivals are medians over all iterations and say nothing about the first one.
  const bool are_medians = timed.measurement.sample_clock == SampleClock::host;
  if (are_medians || arrivals_s.size() < 2 || timed.operations < kMinOperations) return std::nullopt;
  const auto [last, second_last_s] = find_last_arrival(arrivals_s);
  const double late_s = arrivals_s[last] - second_last_s;
  const double share = late_s / (timed.measurement.time_s * timed.operations);
  if (late_s < kMinLateFirstS || share < kMinLateShare) return std::nullopt;
  return Straggler{last, late_s,
                   fmt::format("began {:.0f} us after all others, a delay of {:.0f} % of the time of all operations; "
                               "check for other load on its host and its device, or raise -n",
                               late_s * 1e6, share * 100)};
}

struct Rule {
  LateRank::Kind kind;
  std::optional<Straggler> (*find)(const TimedMeasurement&);
};
constexpr Rule kRules[] = {{LateRank::Kind::late_start, find_late_start},
                           {LateRank::Kind::slow_launch, find_slow_launch},
                           {LateRank::Kind::late_first, find_late_first}};

}  // namespace

std::vector<LateRank> find_late_ranks(const TimedMeasurement& timed, const TimedMeasurement* other,
                                      const std::vector<RankInfo>& ranks) {
  std::vector<LateRank> late_ranks;
  for (const auto& [kind, find] : kRules) {
    const auto straggler = find(timed);
    if (!straggler) continue;
    if (other) {
      const auto other_straggler = find(*other);
      if (!other_straggler || other_straggler->index != straggler->index) continue;
    }
    const RankInfo& rank = ranks[straggler->index];
    late_ranks.push_back({.kind = kind,
                          .rank = rank.rank,
                          .host = rank.host,
                          .late_s = straggler->late_s,
                          .message = fmt::format("rank {} on {} {}", rank.rank, rank.host, straggler->text)});
  }
  return late_ranks;
}

}  // namespace busbw
