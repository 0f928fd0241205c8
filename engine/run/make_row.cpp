// Combines the ranks' samples, clocks and check results into the measurements, warnings and comments of a row.
#include "run/make_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "measure/bandwidth.hpp"
#include "measure/clock.hpp"
#include "measure/combine_ranks.hpp"
#include "measure/statistics.hpp"
#include "run/late_ranks.hpp"
#include "run/warnings.hpp"

namespace busbw {
namespace {

CheckResult make_check_result(const RunPlan& plan, Placement placement, const std::vector<RankReport>& ranks,
                              const std::string& exactness) {
  if (plan.settings.check_iterations == 0) return {};
  if (placement == Placement::in_place && !plan.collective.in_place_defined())
    return {.state = CheckResult::State::not_applicable};
  return combine_check_results(ranks, exactness);
}

DeviceClock make_device_clock(const Samples& samples) {
  DeviceClock clock;
  if (samples.clock_before) clock.before_hz = samples.clock_before->clock_hz;
  if (!samples.clock_after) return clock;
  clock.after_hz = samples.clock_after->clock_hz;
  clock.max_hz = samples.clock_after->max_clock_hz;
  clock.throttle_reasons = samples.clock_after->throttle_reasons;
  return clock;
}

/// Clocks of all ranks' devices, or empty if no device reports its clock.
std::vector<DeviceClock> make_device_clocks(const std::vector<RankReport>& ranks) {
  const auto has_clock = [](const RankReport& rank) { return rank.samples.clock_before || rank.samples.clock_after; };
  std::vector<DeviceClock> clocks;
  if (std::ranges::any_of(ranks, has_clock))
    for (const RankReport& rank : ranks) clocks.push_back(make_device_clock(rank.samples));
  return clocks;
}

/// Distinct algorithms of all ranks. Empty if a rank does not know its algorithm.
std::vector<AlgorithmChoice> distinct_algorithms(const std::vector<RankReport>& ranks) {
  std::vector<AlgorithmChoice> distinct;
  for (const RankReport& rank : ranks) {
    if (rank.samples.algorithms.empty()) return {};
    for (const AlgorithmChoice& choice : rank.samples.algorithms)
      if (std::ranges::find(distinct, choice) == distinct.end()) distinct.push_back(choice);
  }
  return distinct;
}

int operations_per_iteration(const RunPlan& plan) {
  return plan.settings.aggregated_iterations * plan.collective.operations_per_run();
}

/// Sets the time at which each rank arrived, with the method that suits the clock of the samples.
void set_arrivals(const RunPlan& plan, const std::vector<RankReport>& ranks, Measurement& measurement) {
  RankArrivals arrivals;
  if (measurement.sample_clock == SampleClock::host)
    arrivals = typical_arrivals(ranks);
  else if (plan.collective.synchronizes_all_ranks())  // only then do wait times identify a late rank
    arrivals = first_arrivals(ranks, operations_per_iteration(plan));
  measurement.rank_arrivals_s = std::move(arrivals.arrivals_s);
  measurement.rank_arrival_bounds_s = std::move(arrivals.bounds_s);
}

/// Sets the time, the launch time and the device time: of each rank, and combined as -a selects.
void set_times(const RunSettings& settings, const std::vector<RankReport>& ranks, Measurement& measurement) {
  const auto rank_average = static_cast<RankAverage>(settings.average);
  measurement.rank_times_s = rank_times_s(ranks);
  measurement.time_s = combine_ranks(measurement.rank_times_s, rank_average);
  const std::vector<double> launch_s = rank_launch_times_s(ranks);
  if (settings.report_cputime) measurement.cpu_time_s = combine_ranks(launch_s, rank_average);
  if (measurement.sample_clock != SampleClock::host) {
    measurement.rank_launch_times_s = launch_s;
    measurement.launch_time_s = combine_ranks(launch_s, rank_average);
  }
  measurement.rank_device_times_s = rank_device_times_s(ranks);
  if (!measurement.rank_device_times_s.empty())
    measurement.device_time_s = combine_ranks(measurement.rank_device_times_s, rank_average);
}

Measurement make_measurement(const RunPlan& plan, Placement placement, const PlacementReport& report,
                             const std::optional<Traffic>& traffic, const std::string& exactness) {
  const RunSettings& settings = plan.settings;
  Measurement measurement;
  measurement.operation_s = last_rank_s(report.ranks);
  measurement.sample_clock = report.ranks.front().samples.clock;
  set_times(settings, report.ranks, measurement);
  set_arrivals(plan, report.ranks, measurement);
  measurement.rank_clocks = make_device_clocks(report.ranks);
  if (traffic) {
    const Bandwidth achieved = bandwidth(*traffic, measurement.time_s);
    measurement.algbw_bytes_per_s = achieved.algbw_bytes_per_s;
    measurement.busbw_bytes_per_s = achieved.busbw_bytes_per_s;
  }
  // -K counts iterations. With graphs (-G), the first iteration of each launch of -n iterations has no sample. -K is
  // below -n, so it skips one iteration without a sample: that of the first launch.
  const int missing_samples = report.ranks.front().samples.skipped_iterations > 0 ? 1 : 0;
  const auto skipped_samples = static_cast<std::size_t>(std::max(0, settings.per_iteration_skip - missing_samples));
  measurement.statistics = summarize(std::span(measurement.operation_s).subspan(skipped_samples));
  if (settings.per_iteration && settings.processes > 1)
    measurement.process_max_s = last_rank_of_process_s(report.ranks, plan.ranks_per_process());
  for (const RankReport& rank : report.ranks) measurement.rank_samples_s.push_back(rank.samples.operation_s);
  measurement.stopped_by = report.stopped_by;
  measurement.check = make_check_result(plan, placement, report.ranks, exactness);
  measurement.algorithms = distinct_algorithms(report.ranks);
  return measurement;
}

/// Compares a skewed operation, which took `time_s`, with the balanced operation. `shape` and `element_bytes` are those
/// of the row.
///
/// The bound estimates how fast the skewed operation can be: its busiest rank moves bytes as fast as a rank of the
/// balanced operation. If `time_s` is even shorter, it is the bound. This happens if the balanced operation saturates
/// something that ranks share, or has too small messages.
SkewComparison compare_with_balanced(const RunPlan& plan, const PlacementReport& report, double time_s,
                                     const Shape& shape, std::size_t element_bytes) {
  const int ranks = static_cast<int>(report.ranks.size());
  const TrafficBalance balance = *plan.collective.traffic_balance(shape, element_bytes, ranks);
  SkewComparison comparison{.busiest_bytes = balance.busiest_bytes};
  // Bytes of each rank if all ranks have equal shares: total / ranks x (ranks - 1) / ranks, without those for itself.
  const double even_bytes =
      static_cast<double>(balance.total_bytes) * (ranks - 1) / (static_cast<double>(ranks) * ranks);
  if (even_bytes == 0) return comparison;
  comparison.imbalance = static_cast<double>(balance.busiest_bytes) / even_bytes;
  const Shape balanced = balanced_shape(plan, shape, element_bytes, ranks);
  const std::uint64_t balanced_bytes = plan.balanced->traffic_balance(balanced, element_bytes, ranks)->busiest_bytes;
  if (balanced_bytes == 0) return comparison;  // the size is too small for an even split
  comparison.balanced_time_s =
      combine_ranks(rank_times_s(report.compared), static_cast<RankAverage>(plan.settings.average));
  const double time_at_balanced_rate_s =
      *comparison.balanced_time_s * static_cast<double>(balance.busiest_bytes) / static_cast<double>(balanced_bytes);
  comparison.bound_s = std::min(time_s, time_at_balanced_rate_s);
  if (*comparison.bound_s > 0) comparison.ratio_to_bound = time_s / *comparison.bound_s;
  return comparison;
}

/// Share of the measured time in which a neighbor must have been active for a result.
constexpr double kMinActiveShare = 0.9;

/// Adds the result that was measured while the neighbor ran. If the neighbor was not active enough, adds a warning in
/// place of the times.
void add_together(const RunPlan& plan, const PlacementReport& report, Measurement& measurement) {
  TogetherResult together{.active_share = 1};
  for (const NeighborActivity& activity : report.neighbors) {
    const double share = activity.measured_s > 0 ? activity.active_s / activity.measured_s : 0;
    together.active_share = std::min(together.active_share, share);
    together.neighbor_operations = std::max(together.neighbor_operations, activity.operations);
    if (activity.measured_operations > 0)
      together.neighbor_time_s =
          std::max(together.neighbor_time_s.value_or(0),
                   activity.measured_operations_s / static_cast<double>(activity.measured_operations));
  }
  if (together.active_share >= kMinActiveShare) {
    const auto rank_average = static_cast<RankAverage>(plan.settings.average);
    together.time_s = combine_ranks(rank_times_s(report.compared), rank_average);
    if (measurement.time_s > 0) together.ratio_to_alone = *together.time_s / measurement.time_s;
    if (const auto device_times_s = rank_device_times_s(report.compared); !device_times_s.empty())
      together.device_time_s = combine_ranks(device_times_s, rank_average);
    for (const RankReport& rank : report.compared) together.rank_samples_s.push_back(rank.samples.operation_s);
  } else {
    measurement.warnings.push_back(
        fmt::format("the neighbor had an unfinished operation for {:.0f} % of the measured time only, so there is no "
                    "time next to it; give it larger operations or fewer ranks",
                    100 * together.active_share));
  }
  measurement.together = std::move(together);
}

/// Adds the late ranks of each placement. A rank is late only if it is late in the other placement too, if there is
/// one.
void add_late_ranks(const RunPlan& plan, const std::map<Placement, PlacementReport>& placements,
                    const std::vector<RankInfo>& ranks, Row& row) {
  const auto with_operations = [&](Placement placement,
                                   const std::optional<Measurement>& measurement) -> std::optional<TimedMeasurement> {
    if (!measurement) return std::nullopt;
    const auto operations = static_cast<double>(placements.at(placement).ranks.front().samples.total.operations);
    return TimedMeasurement{*measurement, operations, static_cast<double>(operations_per_iteration(plan))};
  };
  const auto out_of_place = with_operations(Placement::out_of_place, row.out_of_place);
  const auto in_place = with_operations(Placement::in_place, row.in_place);
  const TimedMeasurement* const out_of_place_or_null = out_of_place ? &*out_of_place : nullptr;
  const TimedMeasurement* const in_place_or_null = in_place ? &*in_place : nullptr;
  if (out_of_place) row.out_of_place->late_ranks = find_late_ranks(*out_of_place, in_place_or_null, ranks);
  if (in_place) row.in_place->late_ranks = find_late_ranks(*in_place, out_of_place_or_null, ranks);
}

/// Adds a comment about iterations without samples, if -I shows per-iteration figures.
void add_skipped_note(const RunSettings& settings, const std::map<Placement, PlacementReport>& placements, Row& row) {
  const auto skips_first = [](const auto& entry) { return entry.second.ranks.front().samples.skipped_iterations > 0; };
  if (settings.per_iteration && std::ranges::any_of(placements, skips_first))
    row.comments.push_back(
        "Iterations: without the first of each graph launch, because ranks wait for each other's launches in it");
}

/// Adds the sent and received bytes of each rank, if NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY requests them.
void add_rank_summary(const RunPlan& plan, const Shape& shape, std::size_t element_bytes, double bus_factor, Row& row) {
  const auto summary = plan.collective.rank_summary(shape, element_bytes, row.group_ranks);
  if (!summary) return;
  for (const auto* measurement : {&row.out_of_place, &row.in_place}) {
    if (!*measurement) continue;
    const double time_s = (*measurement)->time_s;
    row.comments.push_back(
        fmt::format("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: {} time_usec={:.2f}", summary->title, time_s * 1e6));
    for (std::size_t rank = 0; rank < summary->ranks.size(); ++rank) {
      const auto& bytes = summary->ranks[rank];
      const Traffic traffic{static_cast<double>(std::max(bytes.sent, bytes.received)), bus_factor};
      const Bandwidth achieved = bandwidth(traffic, time_s);
      row.comments.push_back(fmt::format("  rank={} send_bytes={} recv_bytes={} alg_bw={:.2f} bus_bw={:.2f}", rank,
                                         bytes.sent, bytes.received, achieved.algbw_bytes_per_s / 1e9,
                                         achieved.busbw_bytes_per_s / 1e9));
    }
  }
}

}  // namespace

Shape balanced_shape(const RunPlan& plan, const Shape& shape, std::size_t element_bytes, int ranks) {
  const std::uint64_t total_bytes = plan.collective.traffic_balance(shape, element_bytes, ranks)->total_bytes;
  return plan.balanced->shape(total_bytes / element_bytes / static_cast<std::size_t>(ranks), element_bytes, ranks);
}

Row make_row(const RunPlan& plan, const CaseLabel& label, const std::map<Placement, PlacementReport>& placements,
             const std::string& exactness) {
  const Dtype dtype = label.configuration.dtype;
  const std::size_t element_bytes = size_bytes(dtype);
  const int ranks = static_cast<int>(placements.begin()->second.ranks.size());
  const Shape shape = plan.collective.shape(label.requested_bytes / element_bytes, element_bytes, ranks);
  std::optional<Traffic> traffic;
  if (plan.collective.has_bandwidth()) traffic = plan.collective.traffic(shape, element_bytes, ranks);

  Row row;
  row.group = label.group;
  row.group_ranks = ranks;
  row.cycle = label.cycle;
  row.collective = plan.collective.name();
  row.requested_bytes = label.requested_bytes;
  row.size_bytes = std::max(shape.send_count, shape.recv_count) * element_bytes;
  row.count = shape.param_count;
  row.dtype = traffic ? std::optional(dtype) : std::nullopt;  // a replay has no traffic, and operations of many types
  row.redop = label.configuration.redop_name;
  row.root = label.configuration.root;
  for (const auto& [placement, report] : placements) {
    auto& measurement = placement == Placement::in_place ? row.in_place : row.out_of_place;
    measurement = make_measurement(plan, placement, report, traffic, exactness);
    if (plan.balanced)
      measurement->skew = compare_with_balanced(plan, report, measurement->time_s, shape, element_bytes);
  }
  add_late_ranks(plan, placements, label.ranks, row);  // before the warnings, which contain them
  for (const auto& [placement, report] : placements) {
    Measurement& measurement = placement == Placement::in_place ? *row.in_place : *row.out_of_place;
    measurement.warnings = measurement_warnings(plan.settings, measurement, label.ranks);
    if (plan.neighbor) add_together(plan, report, measurement);
  }
  if (traffic) add_rank_summary(plan, shape, element_bytes, traffic->bus_factor, row);
  add_skipped_note(plan.settings, placements, row);
  row.timestamp = wall_time().local;
  return row;
}

}  // namespace busbw
