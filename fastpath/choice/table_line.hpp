#pragma once
// A table's text, line by line.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

/// A line, understood: what is done up to a size.
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

/// Reads lines in their order, and knows where in which file they stand.
class TableLineParser {
 public:
  explicit TableLineParser(const std::string& source) : source_(source) {}

  /// Nothing where the line is empty or a comment. Throws UsageError.
  std::optional<TableLine> next(std::string_view text);
  /// What is wrong with the line that was read last, and what to do about it.
  [[noreturn]] void throw_error(const std::string& what, const std::string& remedy) const;

 private:
  void parse_word(std::string_view word, TableLine& line) const;
  void assign(std::string_view word, std::string_view key, std::string_view value, TableLine& line) const;
  template <typename Value>
  void once(const Value& value, std::string_view key) const;
  void require_whole(const TableLine& line) const;

  const std::string& source_;
  int number_ = 0;
};

}  // namespace busbw::fastpath
