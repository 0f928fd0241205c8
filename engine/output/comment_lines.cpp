// Writes the '#' lines that all tables have.
#include "output/comment_lines.hpp"

#include <map>

#include "common/support/error.hpp"
#include "output/run_outcome.hpp"

namespace busbw {

void append_comment(std::string& out, std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    append(out, "{}{}\n", line.starts_with('#') ? "" : "# ", line);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void append_devices(std::string& out, const std::vector<RankInfo>& ranks) {
  constexpr std::size_t kMaxProcessBytes = 2048;  // with a terminating zero
  constexpr std::string_view kTruncationMark = "...\n";
  std::map<int, std::string> lines_of_process;
  for (const RankInfo& rank : ranks) {
    append(lines_of_process[rank.process], "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n",
           rank.rank, rank.group, rank.pid, rank.host, rank.device, rank.bus_id, rank.device_name);
  }
  for (auto& [process, text] : lines_of_process) {
    if (text.size() >= kMaxProcessBytes) {
      text.resize(kMaxProcessBytes - 1 - kTruncationMark.size());
      text += kTruncationMark;
    }
    out += text;
  }
}

void append_early_end(std::string& out, bool has_table, const RunEnd& end) {
  if (has_table) append_comment(out, "Run ended early: " + end.reason);
  for (const std::string& detail : end.details) append_comment(out, detail);
  if (has_table && !end.message.empty()) append_comment(out, "error: " + end.message);
}

void append_data_verdict(std::string& out, const RunEnd& end) {
  std::string_view verdict = end.rows > 0 ? "OK" : "N/A";
  if (has_wrong_data(end)) verdict = "FAILED";
  append(out, "# {:<20} : {} {}\n", "Out of bounds values", end.wrong_result_count, verdict);
}

std::string failure_text(const RunEnd& end) {
  switch (static_cast<ExitCode>(end.exit_code)) {
    case ExitCode::good: return end.output_failed ? "an output could not be written" : "";
    case ExitCode::interrupted:
    case ExitCode::terminated:
    case ExitCode::output_closed: return "";
    case ExitCode::wrong_data:
      return fmt::format("wrong data in {} element{}", end.wrong_elements, end.wrong_elements == 1 ? "" : "s");
    case ExitCode::slower_than_demanded: return fmt::format("{}: {}", end.reason, end.message);
    default: return end.timed_out ? "Test timeout" : end.reason;
  }
}

}  // namespace busbw
