#pragma once
// Parses the numbers of a table or an environment variable.
#include <optional>
#include <string_view>

#include "common/values/quantity.hpp"

namespace busbw::fastpath {

/// Returns the integer that the text consists of. Returns nothing in three cases: the integer is outside `min` to
/// `max`, the text has a leading zero, or the text has a character other than a digit.
inline std::optional<int> parse_number_in_range(std::string_view text, int min, int max) {
  const bool has_only_digits = text.find_first_not_of("0123456789") == text.npos;
  const auto number = parse_integer(text);  // rejects leading zeros, but accepts a sign and the prefix 0x
  if (!has_only_digits || !number) return std::nullopt;
  const bool is_in_range = *number >= min && *number <= max;
  return is_in_range ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

}  // namespace busbw::fastpath
