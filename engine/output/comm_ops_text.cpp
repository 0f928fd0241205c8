// Writes the header, rows, details and SUMMARY lines of comm_ops.
#include "output/comm_ops_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/support/error.hpp"
#include "output/comment_lines.hpp"
#include "output/run_outcome.hpp"

namespace busbw {
namespace {

constexpr double kMsPerS = 1e3;

/// Appends a line of nccl-tests' -v for each call of a timer.
void append_calls(std::string& out, const TimerCalls& timer, int test_ranks) {
  for (const auto& call_times_s : timer.calls_s) {
    TimeFigures figures;
    figures.add(call_times_s);
    append(out, "{:>36}: Max {:9.3f} ms, Avg {:8.3f} ms, Stddev {:8.3f} ms, [{:4}/{:4}]\n", timer.timer,
           figures.max_s * kMsPerS, figures.mean_s * kMsPerS, figures.stdev_s() * kMsPerS, call_times_s.size(),
           test_ranks);
  }
}

}  // namespace

// Welford's method: one pass, without a difference of large sums.
void TimeFigures::add(const std::vector<double>& times_s) {
  for (const double time_s : times_s) {
    max_s = std::max(max_s, time_s);
    const double difference_s = time_s - mean_s;
    mean_s += difference_s / static_cast<double>(++count_);
    square_sum_ += difference_s * (time_s - mean_s);
  }
}

double TimeFigures::stdev_s() const { return count_ == 0 ? 0 : std::sqrt(square_sum_ / static_cast<double>(count_)); }

std::string duration_text(double seconds) {
  struct Unit {
    double factor;
    const char* name;
  };
  constexpr std::array<Unit, 3> kUnits{{{1, "s"}, {1e3, "ms"}, {1e6, "us"}}};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && seconds * kUnits[unit].factor < 1) ++unit;
  const double value = seconds * kUnits[unit].factor;
  int decimals = 0;
  if (value < 9.995)  // from here on, two decimals would round to 10.00
    decimals = 2;
  else if (value < 99.95)
    decimals = 1;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit].name);
}

void CommOpsText::begin(const RunInfo& run) {
  begun_ = true;
  ranks_ = run.ranks;
  std::string out;
  append(out, "# {} busbw={} backend={} library={}\n", run.program, run.busbw_version, run.backend.name,
         run.backend.uses_nccl_library ? run.backend_version : "none");
  has_roots_ = run.backend.uses_nccl_library;
  append(out, "# warmup iters: {} iters: {}\n", run.settings.warmup_iterations, run.settings.iterations);
  for (const std::string& note : run.notes) append_comment(out, note);
  for (const std::string& warning : run.warnings) append_comment(out, "Warning: " + warning);
  out += "#\n# Using devices\n";
  append_devices(out, run.ranks);
  append(out, "#\n# {:<6}  {:<16}  {:>5}  {:>5}  {:>20}  {:>20}\n", "", "", "", "", "all ranks", "slowest rank");
  append(out, "# {:<6}  {:<16}  {:>5}  {:>5}  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  {}\n", "test", "call", "ranks",
         "iters", "mean", "median", "mean", "median", "#wrong", "slowest");
  stream_.write(out);
}

void CommOpsText::rows(const CaseRows& rows) {
  std::string out;
  for (const Row& row : rows) append_row(out, row);
  stream_.write(out);
}

void CommOpsText::append_row(std::string& out, const Row& row) {
  const Measurement& measurement = *row.out_of_place;  // the only one of a row; time_s and rank_times_s are means
  const LifecycleRow& lifecycle = *row.lifecycle;
  const auto slowest =
      static_cast<std::size_t>(std::ranges::max_element(measurement.rank_times_s) - measurement.rank_times_s.begin());
  const RankInfo& rank = ranks_.at(slowest);  // the ranks of a row are the first ranks of the job
  const bool is_checked = measurement.check.state == CheckResult::State::checked;
  append(out, "  {:<6}  {:<16}  {:>5}  {:>5}  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  rank {} on {}\n", lifecycle.test,
         lifecycle.call, row.group_ranks, measurement.operation_s.size(), duration_text(measurement.time_s),
         duration_text(lifecycle.median_s), duration_text(measurement.rank_times_s[slowest]),
         duration_text(lifecycle.rank_medians_s[slowest]),
         is_checked ? std::to_string(measurement.check.wrong_elements) : "N/A", rank.rank, rank.host);
  if (options_.shows_details) append_details(out, row);
  // Element i of the all-reduce is the contribution of rank i of the job, so the index of a wrong element is a rank.
  for (const WrongElement& wrong : measurement.check.first_wrong)
    append(out, "# Wrong data: {}: rank {}, {}, rank {} of the job: expected {}, got {}\n", row.collective, wrong.rank,
           wrong.place, wrong.index, wrong.expected, wrong.got);
  for (const std::string& warning : measurement.warnings)
    append_comment(out, fmt::format("Warning: {}: {}", row.collective, warning));
  for (const TimerCalls& timer : lifecycle.timers)
    if (is_shown(timer)) add_to_summary(lifecycle, timer);
}

void CommOpsText::append_details(std::string& out, const Row& row) {
  const LifecycleRow& lifecycle = *row.lifecycle;
  for (const TimerCalls& timer : lifecycle.timers)
    if (is_shown(timer)) append_calls(out, timer, lifecycle.test_ranks);
  const auto& rank_samples_s = row.out_of_place->rank_samples_s;
  for (std::size_t i = 0; i < rank_samples_s.size(); ++i)
    append(out, "# {}: rank {} on {}: mean {}, median {}, max {}\n", row.collective, ranks_.at(i).rank,
           ranks_.at(i).host, duration_text(row.out_of_place->rank_times_s[i]),
           duration_text(lifecycle.rank_medians_s[i]), duration_text(std::ranges::max(rank_samples_s[i])));
}

void CommOpsText::add_to_summary(const LifecycleRow& lifecycle, const TimerCalls& timer) {
  auto summary = std::ranges::find_if(summaries_, [&](const Summary& candidate) {
    return candidate.test == lifecycle.test && candidate.timer == timer.timer &&
           candidate.test_ranks == lifecycle.test_ranks;
  });
  if (summary == summaries_.end())
    summary = summaries_.insert(summaries_.end(), {lifecycle.test, timer.timer, lifecycle.test_ranks});
  for (const auto& call_times_s : timer.calls_s) summary->figures.add(call_times_s);
  summary->calls += timer.calls_s.size();
}

std::vector<std::string> CommOpsText::distinct(const std::vector<Summary>& summaries, std::string Summary::* field) {
  std::vector<std::string> texts;
  for (const Summary& summary : summaries)
    if (std::ranges::find(texts, summary.*field) == texts.end()) texts.push_back(summary.*field);
  return texts;
}

void CommOpsText::append_summary(std::string& out, const Summary& summary) {
  append(out, "SUMMARY: Comm size {:4}, {:>36}: Max {:8.3f} ms, Avg {:8.3f} ms, Stddev {:8.3f} ms, Collectives {:3}\n",
         summary.test_ranks, summary.timer, summary.figures.max_s * kMsPerS, summary.figures.mean_s * kMsPerS,
         summary.figures.stdev_s() * kMsPerS, summary.calls);
}

/// As in nccl-tests, the lines of one timer follow each other. Timers of several tests have the same names, so each
/// test has its own lines.
void CommOpsText::append_summaries(std::string& out) {
  const std::vector<std::string> tests = distinct(summaries_, &Summary::test);
  const std::vector<std::string> timers = distinct(summaries_, &Summary::timer);
  for (const std::string& test : tests) {
    if (tests.size() > 1) append_comment(out, fmt::format("SUMMARY lines of {}", test));
    for (const std::string& timer : timers)
      for (const Summary& summary : summaries_)
        if (summary.test == test && summary.timer == timer) append_summary(out, summary);
  }
  if (has_roots_ && options_.root_every > 0)
    append(out, "Note: Scalable Comm Initialization was performed with a root for every {} ranks.\n",
           options_.root_every);
}

void CommOpsText::end(const RunEnd& end) {
  std::string out;
  if (begun_) append_summaries(out);
  if (ended_early(end)) {
    append_early_end(out, begun_, end);
  } else if (begun_) {
    append_data_verdict(out, end);
  }
  if (const std::string failure = failure_text(end); !failure.empty()) append_comment(out, "Test failure: " + failure);
  stream_.write(out);
}

}  // namespace busbw
