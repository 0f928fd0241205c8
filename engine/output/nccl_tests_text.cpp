// Writes header, rows, notes and footer of the table.
#include "output/nccl_tests_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/support/error.hpp"
#include "output/comment_lines.hpp"
#include "output/memory_line.hpp"
#include "output/run_outcome.hpp"
#include "output/units.hpp"

namespace busbw {
namespace {

// Widths, blanks and texts of the table are those of nccl-tests.
constexpr std::string_view kLayoutVersion = "2.19.6";  // version of nccl-tests, for parsers that check it
constexpr int kTimeWidth = 7;
constexpr int kBandwidthWidth = 6;
constexpr int kAlgorithmWidth = 20;
constexpr std::string_view kNotAvailable = "N/A";
// nccl-tests' "not checked" text is one character shorter than the column.
constexpr std::string_view kNotChecked = "    N/A";

std::string step_text(const RunSettings& settings) {
  if (!settings.sizes_bytes.empty()) return fmt::format("{}(sizes)", settings.sizes_bytes.size());
  if (settings.step_factor > 1) return fmt::format("{}(factor)", settings.step_factor);
  return fmt::format("{}(bytes)", settings.step_bytes);
}

void append_settings(std::string& out, const RunInfo& run) {
  const RunSettings& settings = run.settings;
  append(out,
         "# nThread {} nGpus {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} "
         "validation: {} graph: {} unalign: {}\n",
         settings.threads, settings.gpus_per_thread, settings.min_bytes,
         run.requested_max_bytes.value_or(settings.max_bytes), step_text(settings), settings.warmup_iterations,
         settings.iterations, settings.aggregated_iterations, settings.check_iterations, settings.graph_launches,
         settings.unalign_elements);
  // The blanks at the line ends are those of nccl-tests.
  if (settings.blocking == 1) {
    out += "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
  } else if (settings.blocking == 2) {
    out += "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
  } else if (settings.blocking == 3) {
    out += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n";
  }
  if (settings.per_iteration) {
    append(out, "# Per-Iteration Report: {} timing; i_* uses max over process rows",
           run.backend.clock == BackendTraits::Clock::host ? "host clock" : "CUDA event");
    if (settings.per_iteration_skip != 0) {
      append(out, "; summary skips first {} iterations", settings.per_iteration_skip);
    }
    out += " \n";
  }
  if (settings.parallel_init) {
    out += "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n";
  }
  for (const std::string& note : run.notes) append_comment(out, note);
  for (const std::string& warning : run.warnings) append_comment(out, "Warning: " + warning);
}

/// Returns the hosts of each group, separated by blanks and in rank order. Names the first hosts of a large group.
std::map<int, std::string> group_host_texts(const std::vector<RankInfo>& ranks) {
  constexpr std::size_t kMaxNamedHosts = 8;
  std::map<int, std::vector<std::string>> hosts_by_group;
  for (const RankInfo& rank : ranks) {
    auto& hosts = hosts_by_group[rank.group];
    if (std::ranges::find(hosts, rank.host) == hosts.end()) hosts.push_back(rank.host);
  }
  std::map<int, std::string> texts;
  for (const auto& [group, hosts] : hosts_by_group) {
    const std::size_t named = std::min(hosts.size(), kMaxNamedHosts);
    texts[group] = fmt::format("{}", fmt::join(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(named), " "));
    if (named < hosts.size()) texts[group] += fmt::format(" and {} more", hosts.size() - named);
  }
  return texts;
}

/// Texts of the columns of one placement, in one line of the table's heading.
struct ColumnTexts {
  std::string_view time, algbw, busbw, wrong, min, max, p99, cv;
};

void append_heading(std::string& out, const ColumnTexts& texts, bool per_iteration) {
  append(out, "  {:>7}  {:>6}  {:>6}  {:>6}", texts.time, texts.algbw, texts.busbw, texts.wrong);
  if (per_iteration) append(out, "  {:>7}  {:>7}  {:>7}  {:>7}", texts.min, texts.max, texts.p99, texts.cv);
}

/// Appends the three lines above the rows: placements, column names and units.
void append_column_lines(std::string& out, const RunSettings& settings) {
  const bool per_iteration = settings.per_iteration;
  const auto append_line_start = [&](std::string_view size, std::string_view count, std::string_view type,
                                     std::string_view redop, std::string_view root) {
    append(out, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, redop, root);
  };
  const auto append_line_end = [&](std::string_view algorithm, std::string_view timestamp) {
    if (settings.report_algorithms) append(out, "  {0:>{1}}  {0:>{1}}", algorithm, kAlgorithmWidth);
    if (settings.report_timestamps)
      append(out, " {:>19}\n", timestamp);
    else
      out += " \n";
  };
  const ColumnTexts names{
      settings.report_cputime ? "cputime" : "time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"};
  const ColumnTexts units{"(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"};

  out += "#\n";
  append_line_start("", "", "", "", "");
  if (per_iteration)
    append(out, "{:14}out-of-place (+ per-iteration){:32}in-place (+ per-iteration)\n", "", "");
  else
    append(out, "{:11}out-of-place{:23}in-place          \n", "", "");

  append_line_start("size", "count", "type", "redop", "root");
  append_heading(out, names, per_iteration);
  append_heading(out, names, per_iteration);
  append_line_end("algorithm", "timestamp");
  append_line_start("(B)", "(elements)", "", "", "");
  append_heading(out, units, per_iteration);
  append_heading(out, units, per_iteration);
  append_line_end("/protocol/channels", "%Y-%m-%d %H:%M:%S");
}

/// Returns the placement without hyphens: parsers take the last line with "out-of-place" as the table's heading, so no
/// later line may contain this text.
std::string_view placement_text(Placement placement) {
  return placement == Placement::in_place ? "in place" : "out of place";
}

/// Returns "sum in float", or only the type without an operator.
std::string operation_text(const Row& row) {
  return has_redop(row) ? fmt::format("{} in {}", row.redop, row.dtype_name()) : std::string(row.dtype_name());
}

/// Appends the first wrong elements of one placement and the number of further ones.
void append_wrong_elements(std::string& out, const Row& row, Placement placement, const CheckResult& check) {
  if (check.state != CheckResult::State::checked || check.wrong_elements == 0) return;
  for (const WrongElement& wrong : check.first_wrong) {
    append(out, "# Wrong data: {} {}, {}, {} bytes: rank {}, {}, index {}: expected {}, got {}\n", row.collective,
           operation_text(row), placement_text(placement), row.size_bytes, wrong.rank, wrong.place, wrong.index,
           wrong.expected, wrong.got);
  }
  if (check.wrong_elements > check.first_wrong.size()) {
    append(out, "# ... and {} more\n", check.wrong_elements - check.first_wrong.size());
  }
}

/// Time as "12.34 us", or N/A.
std::string time_text(const std::optional<double>& time_s) {
  return time_s ? fmt::format("{:.2f} us", *time_s * kUsPerS) : std::string(kNotAvailable);
}

/// Appends time, device time and launch time (docs/explanation/measuring.md).
void append_times(std::string& out, Placement placement, const Measurement& measurement) {
  append(out, "# Times: {}: time {}, device time {}, launch time {}\n", placement_text(placement),
         time_text(measurement.time_s), time_text(measurement.device_time_s), time_text(measurement.launch_time_s));
}

/// Appends the comparison of a skewed operation with the balanced one.
void append_skew(std::string& out, Placement placement, const SkewComparison& skew) {
  append(out, "# Skew: {}: the busiest rank moves {} bytes", placement_text(placement), skew.busiest_bytes);
  if (skew.imbalance) append(out, ", {:.2f} times an even share", *skew.imbalance);
  append(out, "; balanced {}, bound {}", time_text(skew.balanced_time_s), time_text(skew.bound_s));
  if (skew.ratio_to_bound) append(out, ", time {:.2f} times the bound", *skew.ratio_to_bound);
  out += '\n';
}

/// Appends the comparison of the operation with and without the neighbor.
void append_together(std::string& out, Placement placement, const TogetherResult& together) {
  append(out, "# Together: {}: time {}", placement_text(placement), time_text(together.time_s));
  if (together.ratio_to_alone) append(out, ", {:.2f} times the time alone", *together.ratio_to_alone);
  append(out, "; neighbor: {} operations, {} each\n", together.neighbor_operations,
         time_text(together.neighbor_time_s));
}

/// Appends the '#' lines about one placement of a row.
void append_placement_notes(std::string& out, const Row& row, Placement placement, bool with_times) {
  const auto& measurement = placement == Placement::in_place ? row.in_place : row.out_of_place;
  if (!measurement) return;
  if (with_times) append_times(out, placement, *measurement);
  if (measurement->skew) append_skew(out, placement, *measurement->skew);
  if (measurement->together) append_together(out, placement, *measurement->together);
  append_wrong_elements(out, row, placement, measurement->check);
  for (const std::string& text : measurement->warnings) {
    append_comment(out, fmt::format("Warning: {}: {}", placement_text(placement), text));
  }
}

/// Returns "algbw <x> busbw <y>" summed over the groups, or N/A if a group did not measure the placement.
std::string sum_text(const CaseRows& rows, std::optional<Measurement> Row::* placement) {
  double algbw = 0;
  double busbw = 0;
  for (const Row& row : rows) {
    const auto& measurement = row.*placement;
    if (!measurement || !measurement->algbw_bytes_per_s || !measurement->busbw_bytes_per_s)
      return fmt::format("algbw {0} busbw {0} GB/s", kNotAvailable);
    algbw += *measurement->algbw_bytes_per_s;
    busbw += *measurement->busbw_bytes_per_s;
  }
  return fmt::format("algbw {:.2f} busbw {:.2f} GB/s", algbw / kBytesPerGb, busbw / kBytesPerGb);
}

/// Returns "ring/ll128/4", with "-" for each unknown part.
std::string algorithm_text(const std::optional<Measurement>& measurement) {
  const AlgorithmChoice choice = measurement ? common_choice(measurement->algorithms) : AlgorithmChoice();
  return fmt::format("{}/{}/{}", choice.algorithm.empty() ? "-" : choice.algorithm,
                     choice.protocol.empty() ? "-" : choice.protocol,
                     choice.channels == 0 ? "-" : std::to_string(choice.channels));
}

/// Texts of the columns with a time and with a bandwidth.
std::string time_column_text(const std::optional<double>& time_s) {
  if (!time_s) return fmt::format("{:>{}}", kNotAvailable, kTimeWidth);
  return column_number_text(*time_s * kUsPerS, kTimeWidth);
}
std::string bandwidth_column_text(const std::optional<double>& bytes_per_s) {
  if (!bytes_per_s) return fmt::format("{:>{}}", kNotAvailable, kBandwidthWidth);
  return column_number_text(*bytes_per_s / kBytesPerGb, kBandwidthWidth);
}

}  // namespace

std::string column_number_text(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:>{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return fmt::format("{:>{}.{}e}", value, width, width >= 7 ? 1 : 0);  // "1.2e+08" has 7 characters
}

void NcclTestsText::comment(std::string_view text) {
  std::string out;
  append_comment(out, text);
  stream_.write(out);
}

void NcclTestsText::begin(const RunInfo& run) {
  begun_ = true;
  program_ = run.program;
  settings_ = run.settings;
  hosts_by_group_ = group_host_texts(run.ranks);
  std::string out;
  append(out, "# nccl-tests version {} nccl-headers={} nccl-library={} busbw={} backend={}\n", kLayoutVersion,
         run.headers_version.empty() ? "none" : run.headers_version,
         run.backend.uses_nccl_library ? run.backend_version : "none", run.busbw_version, run.backend.name);
  append(out, "# Collective test starting: {}\n", program_);
  append_settings(out, run);
  out += "#\n# Using devices\n";
  append_devices(out, run.ranks);
  append_column_lines(out, settings_);
  stream_.write(out);
}

void NcclTestsText::rows(const CaseRows& rows) {
  std::string out;
  for (const Row& row : rows) {
    if (rows.size() > 1)
      append(out, "# Group {}: {} ranks on {}\n", row.group, row.group_ranks, hosts_by_group_[row.group]);
    append_inexact_check(out, row);
    append_row(out, row);
    for (const std::string& line : row.comments) append_comment(out, line);
    append_placement_notes(out, row, Placement::out_of_place, settings_.report_times);
    append_placement_notes(out, row, Placement::in_place, settings_.report_times);
  }
  if (rows.size() > 1) {
    append(out, "# Sum over {} groups: {} {}, {} {}\n", rows.size(), placement_text(Placement::out_of_place),
           sum_text(rows, &Row::out_of_place), placement_text(Placement::in_place), sum_text(rows, &Row::in_place));
  }
  stream_.write(out);
}

void NcclTestsText::end(const RunEnd& end) {
  std::string out;
  if (ended_early(end)) {
    append_early_end(out, begun_, end);
  } else if (begun_) {
    append_footer(out, end);
  }
  if (const std::string failure = failure_text(end); !failure.empty()) append_comment(out, "Test failure: " + failure);
  stream_.write(out);
}

void NcclTestsText::append_footer(std::string& out, const RunEnd& end) const {
  append_data_verdict(out, end);
  std::string busbw_text(kNotAvailable);
  if (end.average_busbw_bytes_per_s) busbw_text = fmt::format("{:g}", *end.average_busbw_bytes_per_s / kBytesPerGb);
  std::string_view busbw_verdict;  // empty without NCCL_TESTS_MIN_BW
  if (end.min_busbw_bytes_per_s) busbw_verdict = meets_min_busbw(end) ? "OK" : "FAILED";
  append(out, "# {:<20} : {} {}\n", "Avg bus bandwidth", busbw_text, busbw_verdict);
  append(out, "#\n# Collective test concluded: {}\n{}#\n\n", program_, memory_line(end.memory));
}

void NcclTestsText::append_row(std::string& out, const Row& row) const {
  append(out, "{:12}  {:12}  {:>8}  {:>6}  {:6}", row.size_bytes, row.count, row.dtype_name(), row.redop, row.root);
  append_placement(out, row.out_of_place);
  append_placement(out, row.in_place);
  if (settings_.report_algorithms)
    append(out, "  {0:>{2}}  {1:>{2}}", algorithm_text(row.out_of_place), algorithm_text(row.in_place),
           kAlgorithmWidth);
  if (settings_.report_timestamps) append(out, "{:>21}", row.timestamp);
  out += '\n';
}

void NcclTestsText::append_placement(std::string& out, const std::optional<Measurement>& measurement) const {
  if (measurement) {
    const std::optional<double> time_s = settings_.report_cputime ? measurement->cpu_time_s : measurement->time_s;
    append(out, "  {}  {}  {}", time_column_text(time_s), bandwidth_column_text(measurement->algbw_bytes_per_s),
           bandwidth_column_text(measurement->busbw_bytes_per_s));
  } else {
    append(out, "  {0:>{1}}  {0:>{2}}  {0:>{2}}", kNotAvailable, kTimeWidth, kBandwidthWidth);
  }
  if (measurement && measurement->check.state == CheckResult::State::checked) {
    append(out, "  {:>6g}", static_cast<double>(measurement->check.wrong_elements));
  } else {
    out += kNotChecked;
  }
  if (!settings_.per_iteration) return;
  if (measurement && measurement->statistics.samples > 0) {
    const Statistics& statistics = measurement->statistics;
    append(out, "  {}  {}  {}  {}", column_number_text(statistics.min_s * kUsPerS, kTimeWidth),
           column_number_text(statistics.max_s * kUsPerS, kTimeWidth),
           column_number_text(statistics.p99_s * kUsPerS, kTimeWidth),
           column_number_text(statistics.cv * 100, kTimeWidth));
  } else {
    append(out, "  {0:>{1}}  {0:>{1}}  {0:>{1}}  {0:>{1}}", kNotAvailable, kTimeWidth);
  }
}

void NcclTestsText::append_inexact_check(std::string& out, const Row& row) {
  for (const auto* measurement : {&row.out_of_place, &row.in_place}) {
    if (!*measurement) continue;
    const CheckResult& check = (*measurement)->check;
    const bool is_exact = check.exactness.empty() || check.exactness == "exact";
    if (check.state != CheckResult::State::checked || is_exact) continue;
    const bool is_first = named_inexact_checks_.emplace(row.dtype_name(), row.redop).second;
    if (is_first) append_comment(out, fmt::format("Check of {}: {}", operation_text(row), check.exactness));
  }
}

}  // namespace busbw
