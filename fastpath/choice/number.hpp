#pragma once
// Parses the numbers of a table or an environment variable.
#include <optional>
#include <string_view>

#include "common/values/quantity.hpp"

namespace busbw::fastpath {

/// Returns the integer that the text consists of. Nothing if it is outside `min` to `max`, or the text has leading
/// zeros or anything but digits.
inline std::optional<int> parse_number_in_range(std::string_view text, int min, int max) {
  const auto number = parse_integer(text);
  if (text.find_first_not_of("0123456789") != text.npos || !number || *number < min || *number > max)
    return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace busbw::fastpath
