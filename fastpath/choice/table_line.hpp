#pragma once
// Parser for the lines of a table.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// A parsed line: the method for sizes up to `up_to_bytes`. Only complete lines leave the parser.
struct TableLine {
  std::optional<Collective> collective;
  std::optional<Method> method;
  bool is_for_windows = false;
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

  /// Parses the next line. Nothing if it is empty or a comment. Throws UsageError.
  std::optional<TableLine> next(std::string_view text);
  /// Throws a UsageError for the most recently parsed line, with its source and number.
  [[noreturn]] void throw_error(const std::string& problem, const std::string& remedy) const;

 private:
  void parse_token(std::string_view token, TableLine& line) const;
  void assign(std::string_view token, std::string_view key, std::string_view value, TableLine& line) const;
  template <typename Value>
  void reject_duplicate(const Value& value, std::string_view key) const;
  void require_complete(const TableLine& line) const;

  const std::string& source_;
  int number_ = 0;
};

}  // namespace busbw::fastpath
