#pragma once
// '#' lines that the tables share: comments, devices, the end of a failed run.
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// Appends formatted text.
template <class... Arguments>
void append(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

/// Appends one '#' line for each line of `text`. Lines that begin with '#' stay unchanged.
void append_comment(std::string& out, std::string_view text);

/// Appends one line per rank. As in nccl-tests, the lines of a process have at most 2047 bytes. Longer text is cut and
/// ends with "...".
void append_devices(std::string& out, const std::vector<RankInfo>& ranks);

/// Appends the reason of an early end instead of the footer, because scripts take a footer as the sign of a completed
/// run. `has_table`: the header was written. Without a header, appends only the details: stderr has the message.
void append_early_end(std::string& out, bool has_table, const RunEnd& end);

/// Appends the number of wrong results with nccl-tests' verdict: OK, FAILED, or N/A for a run without rows.
void append_data_verdict(std::string& out, const RunEnd& end);

/// Returns the reason for a failed run. Empty after success. Also empty after a signal or a closed output, because
/// nccl-tests prints nothing then.
std::string failure_text(const RunEnd& end);

}  // namespace busbw
