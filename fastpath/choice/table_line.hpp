#pragma once
// Parser for the lines of a table. table.hpp describes their format.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// A parsed line: the method for sizes up to `up_to_bytes`. A number is 0 if the line has not given it.
struct TableLine {
  std::optional<Collective> collective;
  std::optional<Method> method;
  bool is_for_symmetric_windows = false;
  int min_ranks = 0;
  int max_ranks = 0;
  std::size_t up_to_bytes = 0;
  int blocks = 0;
  int threads = 0;
};

/// Parses the lines of one table in their order and counts them for error messages.
class TableLineParser {
 public:
  explicit TableLineParser(const std::string& source) : source_(source) {}

  /// Parses the next line. Nothing if it is empty or a comment. Throws UsageError if it is invalid or incomplete.
  std::optional<TableLine> parse_next_line(std::string_view text);
  /// Throws a UsageError for the most recently parsed line, with its source and number.
  [[noreturn]] void throw_error(const std::string& problem, const std::string& remedy) const;

 private:
  /// Parses one word of the line and stores its value in `line`.
  void parse_word(std::string_view word, TableLine& line) const;
  void parse_key_value(std::string_view word, std::string_view key, std::string_view value, TableLine& line) const;
  /// Throws UsageError if the key occurs twice. `parsed_value` is the line's value for the key so far. The value is 0
  /// if the key has not occurred.
  template <typename Value>
  void reject_duplicate(const Value& parsed_value, std::string_view key) const;
  /// Throws UsageError if a value is missing or the values do not belong together.
  void require_complete(const TableLine& line) const;

  const std::string& source_;
  int line_number_ = 0;  // of the most recently parsed line, from 1
};

}  // namespace busbw::fastpath
