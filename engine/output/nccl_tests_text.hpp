#pragma once
// The table that everybody's scripts parse: the text output of nccl-tests 2.19.6, byte for byte in layout.
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "output/sink.hpp"
#include "output/text_stream.hpp"

namespace busbw {

/// A number in a column `width` wide, as nccl-tests fits it: two decimals, then one, then none, then an exponent.
std::string fitted(double value, int width);

/// Writes to a descriptor, a whole row or line at a time, as a TextStream does.
class NcclTestsText : public Sink {
 public:
  /// `gives_up`: see TextStream.
  explicit NcclTestsText(int descriptor = STDOUT_FILENO, std::function<bool()> gives_up = {})
      : stream_(descriptor, std::move(gives_up)) {}

  /// A '#' line, at any time between whole rows: also before the header, as nccl-tests does for -J.
  void comment(std::string_view sentence);

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  void append_row(std::string& out, const Row& row) const;
  void append_placement(std::string& out, const std::optional<Measurement>& measurement) const;
  void append_policy(std::string& out, const Row& row);
  void append_early_end(std::string& out, const RunEnd& end) const;
  void append_footer(std::string& out, const RunEnd& end) const;

  TextStream stream_;
  bool begun_ = false;
  std::string program_;
  RunSettings settings_;
  std::set<std::pair<Dtype, std::string>> named_policies_;  // (type, operator)
};

}  // namespace busbw
