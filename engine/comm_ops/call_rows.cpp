// Computes the rows of comm_ops: times, late and slow ranks, and the calls that nccl-tests' timers count.
//
// A test such as split first makes a parent communicator by an init, and then its own communicator from the parent.
// nccl-tests counts the calls of both with the same timers.
#include "comm_ops/call_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "measure/clock.hpp"
#include "measure/combine_ranks.hpp"
#include "measure/statistics.hpp"

namespace busbw {
namespace {

// A rank is late only if every iteration shows it, by at least this time and this share of the call's time. Starts and
// ends of processes on a busy host differ by less.
constexpr double kMinLateS = 1e-3;
constexpr double kMinLateShare = 0.1;
constexpr std::size_t kMinIterations = 2;
// A rank is slow if even its fastest call takes this many times as long as the median call of the median rank, and if
// its median call takes at least kMinLateS longer.
constexpr double kSlowFactor = 2;
constexpr std::size_t kMinEqualRanks = 3;  // of two ranks, neither is typical

bool moves_data(LifecycleCall call) {
  return call == LifecycleCall::first_all_reduce || call == LifecycleCall::next_all_reduce;
}

bool ends_communicator(LifecycleCall call) {
  return call == LifecycleCall::finalize || call == LifecycleCall::destroy || call == LifecycleCall::abort;
}

double median_s(std::vector<double> values_s) { return summarize(values_s).median_s; }

/// One kind of call of a test: its times on each rank that makes it, in rank order.
using RankCalls = std::span<const CallTimes* const>;

LateRank make_late_rank(LateRank::Kind kind, const RankInfo& rank, double late_s, const std::string& text) {
  return {kind, rank.rank, rank.host, late_s, fmt::format("rank {} on {} {}", rank.rank, rank.host, text)};
}

/// Finds the rank that began every call after all other ranks, so that these waited for it. `time_s`: mean time of the
/// call over all ranks.
std::optional<LateRank> find_late_caller(RankCalls calls, const std::vector<RankInfo>& ranks, double time_s) {
  const auto shortest_delay_s = [](const CallTimes* times) { return std::ranges::min(times->delay_s); };
  const auto last = std::ranges::max_element(calls, {}, shortest_delay_s);
  double longest_other_delay_s = 0;
  for (auto times = calls.begin(); times != calls.end(); ++times)
    if (times != last) longest_other_delay_s = std::max(longest_other_delay_s, std::ranges::max((*times)->delay_s));
  const double late_s = shortest_delay_s(*last) - longest_other_delay_s;
  if (late_s < kMinLateS || late_s < kMinLateShare * time_s) return std::nullopt;
  return make_late_rank(LateRank::Kind::late_start, ranks[static_cast<std::size_t>(last - calls.begin())], late_s,
                        fmt::format("starts each call {:.0f} ms after all others; check for other load on its host, "
                                    "and the CPU binding of its process",
                                    late_s * 1e3));
}

/// Finds the rank that takes much longer than the median of its equals, which are the ranks with the same role in the
/// test. `ranks` describes the equals.
std::optional<LateRank> find_slow_caller(RankCalls equals, std::span<const RankInfo> ranks) {
  if (equals.size() < kMinEqualRanks) return std::nullopt;
  std::vector<double> medians_s;
  for (const CallTimes* times : equals) medians_s.push_back(median_s(times->time_s));
  const double typical_s = median_s(medians_s);
  const auto slowest = std::ranges::max_element(medians_s) - medians_s.begin();
  const double fastest_call_s = std::ranges::min(equals[static_cast<std::size_t>(slowest)]->time_s);
  const double slow_s = medians_s[static_cast<std::size_t>(slowest)] - typical_s;
  if (fastest_call_s < kSlowFactor * typical_s || slow_s < kMinLateS) return std::nullopt;
  return make_late_rank(LateRank::Kind::slow_call, ranks[static_cast<std::size_t>(slowest)], slow_s,
                        fmt::format("takes {:.0f} ms longer than the median of its equals; compare its host's CPU, GPU "
                                    "and network with theirs (busbw doctor)",
                                    slow_s * 1e3));
}

/// Finds ranks that the others waited for. `calls` has one entry for each rank that makes the call, from rank 0 on.
/// `time_s`: as in `find_late_caller`.
std::vector<LateRank> find_late_and_slow_callers(const CommOpsCase& comm_case, RankCalls calls,
                                                 const std::vector<RankInfo>& ranks, double time_s) {
  std::vector<LateRank> late_ranks;
  if (calls.size() < 2 || calls.front()->time_s.size() < kMinIterations) return late_ranks;
  if (auto late = find_late_caller(calls, ranks, time_s)) late_ranks.push_back(*late);
  // The two halves of a split have different roles. So have the old and the new ranks of a grow.
  const bool has_roles = comm_case.test == CreationKind::split || comm_case.test == CreationKind::grow;
  const std::size_t middle = has_roles ? static_cast<std::size_t>(comm_case.kept_ranks) : calls.size();
  const auto callers = std::span(ranks).first(calls.size());
  if (auto slow = find_slow_caller(calls.first(middle), callers.first(middle))) late_ranks.push_back(*slow);
  if (auto slow = find_slow_caller(calls.subspan(middle), callers.subspan(middle))) late_ranks.push_back(*slow);
  return late_ranks;
}

Measurement make_measurement(const CommOpsCase& comm_case, RankCalls calls, bool is_checked,
                             const std::vector<RankInfo>& ranks) {
  std::vector<RankReport> reports;
  for (const CallTimes* times : calls) {
    RankReport& report = reports.emplace_back();
    report.samples.operation_s = times->time_s;
    for (const double time_s : times->time_s) report.samples.total += {.elapsed_s = time_s, .operations = 1};
    const Statistics delay = summarize(times->delay_s);
    report.samples.start_delay = {delay.median_s, delay.median_ci95_s};
    report.check_result = times->check_result;
  }
  Measurement measurement;
  measurement.operation_s = last_rank_s(reports);
  measurement.statistics = summarize(measurement.operation_s);
  measurement.rank_times_s = rank_times_s(reports);
  measurement.time_s = combine_ranks(measurement.rank_times_s, RankAverage::mean);
  const RankArrivals arrivals = typical_arrivals(reports);
  measurement.rank_arrivals_s = arrivals.arrivals_s;
  measurement.rank_arrival_bounds_s = arrivals.bounds_s;
  for (const CallTimes* times : calls) measurement.rank_samples_s.push_back(times->time_s);
  measurement.check.state = CheckResult::State::not_applicable;
  if (is_checked) measurement.check = combine_check_results(reports, "exact");
  measurement.late_ranks = find_late_and_slow_callers(comm_case, calls, ranks, measurement.time_s);
  for (const LateRank& late : measurement.late_ranks) measurement.warnings.push_back(late.message);
  return measurement;
}

void add_launch_times(RankCalls calls, Measurement& measurement) {
  for (const CallTimes* times : calls) measurement.rank_launch_times_s.push_back(summarize(times->issue_s).mean_s);
  measurement.launch_time_s = combine_ranks(measurement.rank_launch_times_s, RankAverage::mean);
}

/// Returns one list of times for each call, with a time for each rank that makes it. `times_s`: [rank][call].
std::vector<std::vector<double>> by_call(const std::vector<std::vector<double>>& times_s) {
  std::vector<std::vector<double>> calls_s;
  for (const auto& rank_times_s : times_s) {
    calls_s.resize(std::max(calls_s.size(), rank_times_s.size()));
    for (std::size_t i = 0; i < rank_times_s.size(); ++i) calls_s[i].push_back(rank_times_s[i]);
  }
  return calls_s;
}

/// Appends the calls to the timer with this name. Adds the timer if it is missing. `is_optional`: only -A shows the
/// timer. `times_s`: [rank][call].
void add_to_timer(std::vector<TimerCalls>& timers, const std::string& name, bool is_optional,
                  const std::vector<std::vector<double>>& times_s) {
  auto timer = std::ranges::find(timers, name, &TimerCalls::timer);
  if (timer == timers.end()) timer = timers.insert(timers.end(), {name, is_optional});
  for (auto& call_s : by_call(times_s)) timer->calls_s.push_back(std::move(call_s));
}

/// Adds a call to the timers with which nccl-tests times it. The name of a timer is the function of the library.
/// Without a library, it is the test and the call, as in "split create".
void add_to_timers(std::vector<TimerCalls>& timers, CreationKind test, RankCalls calls, const Backend& backend) {
  const LifecycleCall call = calls.front()->call;
  const CreationKind creation = calls.front()->is_of_parent ? CreationKind::init : test;
  const std::string function = backend.lifecycle_function(creation, call);
  std::vector<std::vector<double>> times_s;
  for (const CallTimes* times : calls) times_s.push_back(times->time_s);
  if (function.empty()) {
    // The creation of the parent counts as "init create". The other calls of the parent count for the test.
    const CreationKind named_test = call == LifecycleCall::create ? creation : test;
    const bool is_preparation = call == LifecycleCall::rendezvous;
    return add_to_timer(timers, fmt::format("{} {}", name(named_test), name(call)), /*is_optional=*/is_preparation,
                        times_s);
  }
  const std::string function_timer = fmt::format("NCCL {}", function);
  if (!moves_data(call)) return add_to_timer(timers, function_timer, /*is_optional=*/false, times_s);
  // nccl-tests times the function and the wait for its result by two timers.
  std::vector<std::vector<double>> issue_s;
  std::vector<std::vector<double>> wait_s = times_s;
  for (const CallTimes* times : calls) issue_s.push_back(times->issue_s);
  for (std::size_t rank = 0; rank < wait_s.size(); ++rank)
    for (std::size_t i = 0; i < wait_s[rank].size(); ++i) wait_s[rank][i] -= issue_s[rank][i];
  add_to_timer(timers, function_timer, /*is_optional=*/false, issue_s);
  add_to_timer(timers, "(CUDA) Stream Synchronize", /*is_optional=*/true, wait_s);
}

/// The same for each kind of call of a case (RankCalls).
using CallsByKind = std::map<LifecycleCall, std::vector<const CallTimes*>>;

LifecycleRow make_lifecycle_row(const CommOpsCase& comm_case, RankCalls calls, const CallsByKind& parent_calls,
                                const Backend& backend) {
  const LifecycleCall call = calls.front()->call;
  LifecycleRow row{std::string(name(comm_case.test)), std::string(name(call)),
                   backend.lifecycle_function(comm_case.test, call), comm_case.ranks};
  std::vector<double> samples_s;
  for (const CallTimes* times : calls) {
    samples_s.insert(samples_s.end(), times->time_s.begin(), times->time_s.end());
    row.rank_medians_s.push_back(median_s(times->time_s));
  }
  row.median_s = median_s(std::move(samples_s));
  const auto of_parent = parent_calls.find(call);
  const bool has_parent_call = of_parent != parent_calls.end();
  const bool is_parent_last = ends_communicator(call);  // a parent is made before its children and ends after them
  if (has_parent_call && !is_parent_last) add_to_timers(row.timers, comm_case.test, of_parent->second, backend);
  add_to_timers(row.timers, comm_case.test, calls, backend);
  if (has_parent_call && is_parent_last) add_to_timers(row.timers, comm_case.test, of_parent->second, backend);
  return row;
}

}  // namespace

CaseRows make_call_rows(const CommOpsCase& comm_case, const std::vector<std::vector<CallTimes>>& calls,
                        const Backend& backend, const std::vector<RankInfo>& ranks) {
  // The ranks that make a call are always the first ones of the job. So entry i of a list below belongs to rank i.
  CallsByKind own_calls;
  CallsByKind parent_calls;
  for (const auto& rank_calls : calls) {
    for (const CallTimes& times : rank_calls) {
      CallsByKind& calls_by_kind = times.is_of_parent ? parent_calls : own_calls;
      calls_by_kind[times.call].push_back(&times);
    }
  }
  CaseRows rows;
  for (const auto& [call, times] : own_calls) {
    const bool is_all_reduce = moves_data(call);
    Row& row = rows.emplace_back();
    row.group_ranks = static_cast<int>(times.size());
    row.collective = fmt::format("{}/{}", name(comm_case.test), name(call));
    row.count = is_all_reduce ? all_reduce_elements(static_cast<int>(ranks.size())) : 0;
    row.requested_bytes = row.size_bytes = row.count * sizeof(std::int32_t);
    row.dtype = is_all_reduce ? std::optional(Dtype::int32) : std::nullopt;
    row.redop = is_all_reduce ? "sum" : "";
    row.out_of_place = make_measurement(comm_case, times, is_all_reduce, ranks);
    row.timestamp = wall_time().local;
    row.lifecycle = make_lifecycle_row(comm_case, times, parent_calls, backend);
    // A function of a library returns before its operation is done.
    if (is_all_reduce && !row.lifecycle->function.empty()) add_launch_times(times, *row.out_of_place);
  }
  return rows;
}

}  // namespace busbw
