#pragma once
// The table: rows in the text format of nccl-tests 2.19.6, so that its parsers can read them. Lines that nccl-tests
// does not have begin with '#'.
#include <unistd.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "output/sink.hpp"
#include "output/text_stream.hpp"

namespace busbw {

/// Formats a number for a column of `width`, as nccl-tests does: two decimals, one, none, or an exponent. In a column
/// of 7: " 123.45", "12345.6", "1234567", "1.2e+08".
std::string column_number_text(double value, int width);

/// Writes the table to a descriptor.
class NcclTestsText : public Sink {
 public:
  /// `should_drop`: see TextStream.
  explicit NcclTestsText(int descriptor = STDOUT_FILENO, std::function<bool()> should_drop = {})
      : stream_(descriptor, std::move(should_drop)) {}

  /// Writes `text` as '#' lines. Call it between whole rows, or before the header, as nccl-tests does for -J.
  void comment(std::string_view text);

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  void append_row(std::string& out, const Row& row) const;
  void append_placement(std::string& out, const std::optional<Measurement>& measurement) const;
  /// Appends a note before the first row of each type and operator with an inexact check, such as one with a tolerance.
  void append_inexact_check(std::string& out, const Row& row);
  void append_footer(std::string& out, const RunEnd& end) const;

  TextStream stream_;
  bool begun_ = false;
  std::string program_;
  RunSettings settings_;
  std::map<int, std::string> hosts_by_group_;  // by color of the group: its hosts as text
  std::set<std::pair<std::string_view, std::string>> named_inexact_checks_;  // (type, operator) with a printed note
};

}  // namespace busbw
