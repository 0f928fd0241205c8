#include "output/comm_ops_text.hpp"

#include <algorithm>
#include <cmath>

#include "common/support/error.hpp"
#include "output/comment_lines.hpp"
#include "output/run_outcome.hpp"

namespace busbw {
namespace {

constexpr double kMsPerS = 1e3;

/// Maximum, mean and standard deviation of several times.
struct TimeFigures {
  double max_s = 0, mean_s = 0, stdev_s = 0;
};

TimeFigures time_figures(const std::vector<double>& times_s) {
  TimeFigures figures;
  double sum = 0, square_sum = 0;
  for (const double time_s : times_s) {
    figures.max_s = std::max(figures.max_s, time_s);
    sum += time_s;
  }
  figures.mean_s = sum / static_cast<double>(times_s.size());
  for (const double time_s : times_s) square_sum += (time_s - figures.mean_s) * (time_s - figures.mean_s);
  figures.stdev_s = std::sqrt(square_sum / static_cast<double>(times_s.size()));
  return figures;
}

/// Name in lines of iterations and SUMMARY lines. Equal to nccl-tests' name only if both time the same call.
std::string summary_name(const LifecycleRow& row) {
  // nccl-tests does not wait for the end of the all-reduce.
  if (row.call.ends_with("all_reduce")) return fmt::format("{} {} with wait", row.test, row.call);
  const bool is_nccl_function = !row.function.empty();
  return is_nccl_function ? fmt::format("NCCL {}", row.function) : fmt::format("{} {}", row.test, row.call);
}

void append_iterations(std::string& out, const Row& row) {
  const auto& rank_samples_s = row.out_of_place->rank_samples_s;
  for (std::size_t iteration = 0; iteration < rank_samples_s.front().size(); ++iteration) {
    std::vector<double> times_s;
    for (const auto& samples_s : rank_samples_s) times_s.push_back(samples_s[iteration]);
    const TimeFigures figures = time_figures(times_s);
    append(out, "{:>36}: Max {:9.3f} ms, Avg {:8.3f} ms, Stddev {:8.3f} ms, [{:4}/{:4}]\n",
           summary_name(*row.lifecycle), figures.max_s * kMsPerS, figures.mean_s * kMsPerS, figures.stdev_s * kMsPerS,
           row.group_ranks, row.lifecycle->test_ranks);
  }
}

}  // namespace

std::string duration_text(double seconds) {
  struct Unit {
    double factor;
    const char* name;
  };
  constexpr Unit kUnits[]{{1, "s"}, {1e3, "ms"}, {1e6, "us"}};
  const Unit* unit = kUnits;
  while (unit != std::end(kUnits) - 1 && seconds * unit->factor < 1) ++unit;
  const double value = seconds * unit->factor;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit->name);
}

void CommOpsText::begin(const RunInfo& run) {
  begun_ = true;
  ranks_ = run.ranks;
  std::string out;
  append(out, "# {} busbw={} backend={} library={}\n", run.program, run.busbw_version, run.backend.name,
         run.backend.uses_nccl_library ? run.backend_version : "none");
  append(out, "# warmup iters: {} iters: {}\n", run.settings.warmup_iterations, run.settings.iterations);
  for (const std::string& note : run.notes) append_comment(out, note);
  for (const std::string& warning : run.warnings) append_comment(out, "Warning: " + warning);
  out += "#\n# Using devices\n";
  append_devices(out, run.ranks);
  append(out, "#\n# {:<6}  {:<16}  {:>5}  {:>5}  {:>9}  {:>9}  {:>9}  {:>6}  {}\n", "test", "call", "ranks", "iters",
         "mean", "median", "slowest", "#wrong", "slowest rank");
  stream_.write(out);
}

void CommOpsText::rows(const CaseRows& rows) {
  std::string out;
  for (const Row& row : rows) append_row(out, row);
  stream_.write(out);
}

void CommOpsText::append_row(std::string& out, const Row& row) {
  const Measurement& measurement = *row.out_of_place;
  const LifecycleRow& lifecycle = *row.lifecycle;
  const auto slowest = std::ranges::max_element(measurement.rank_times_s);
  const RankInfo& rank = ranks_.at(static_cast<std::size_t>(slowest - measurement.rank_times_s.begin()));
  const bool is_checked = measurement.check.state == CheckResult::State::checked;
  append(out, "  {:<6}  {:<16}  {:>5}  {:>5}  {:>9}  {:>9}  {:>9}  {:>6}  rank {} on {}\n", lifecycle.test,
         lifecycle.call, row.group_ranks, measurement.iteration_s.size(), duration_text(measurement.time_s),
         duration_text(measurement.statistics.median_s), duration_text(*slowest),
         is_checked ? std::to_string(measurement.check.wrong_elements) : "N/A", rank.rank, rank.host);
  if (options_.shows_iterations) append_iterations(out, row);
  // Element i of the all-reduce is the contribution of rank i of the job.
  for (const WrongElement& wrong : measurement.check.first_wrong)
    append(out, "# Wrong data: {}: rank {}, {}, rank {} of the job: expected {}, got {}\n", row.collective, wrong.rank,
           wrong.place, wrong.index, wrong.expected, wrong.got);
  for (const std::string& warning : measurement.warnings)
    append_comment(out, fmt::format("Warning: {}: {}", row.collective, warning));
  if (lifecycle.call == "rendezvous" && !options_.summarizes_rendezvous) return;
  std::vector<double> times_s;
  for (const auto& samples_s : measurement.rank_samples_s)
    times_s.insert(times_s.end(), samples_s.begin(), samples_s.end());
  const TimeFigures figures = time_figures(times_s);
  summaries_.push_back({summary_name(lifecycle), lifecycle.test_ranks, figures.max_s, figures.mean_s, figures.stdev_s,
                        measurement.iteration_s.size()});
}

/// As in nccl-tests, the lines of one call follow each other.
void CommOpsText::append_summaries(std::string& out) {
  std::vector<std::string> names;
  for (const Summary& summary : summaries_)
    if (std::ranges::find(names, summary.name) == names.end()) names.push_back(summary.name);
  for (const std::string& name : names)
    for (const Summary& summary : summaries_)
      if (summary.name == name)
        append(out,
               "SUMMARY: Comm size {:4}, {:>36}: Max {:8.3f} ms, Avg {:8.3f} ms, Stddev {:8.3f} ms, Collectives {:3}\n",
               summary.test_ranks, summary.name, summary.max_s * kMsPerS, summary.mean_s * kMsPerS,
               summary.stdev_s * kMsPerS, summary.calls);
  if (options_.root_every > 0)
    append(out, "Note: Scalable Comm Initialization was performed with a root for every {} ranks.\n",
           options_.root_every);
}

void CommOpsText::end(const RunEnd& end) {
  std::string out;
  if (begun_) append_summaries(out);
  if (ended_early(end)) {
    append_early_end(out, begun_, end);
  } else if (begun_) {
    append(out, "# {:<20} : {} {}\n", "Out of bounds values", end.wrong_result_count,
           has_wrong_data(end) ? "FAILED"
           : end.rows > 0      ? "OK"
                               : "N/A");
  }
  if (const std::string failure = failure_text(end); !failure.empty()) append_comment(out, "Test failure: " + failure);
  stream_.write(out);
}

}  // namespace busbw
