#pragma once
// Parses the numbers of a table or an environment variable.
#include <optional>
#include <string_view>

#include "common/values/quantity.hpp"

namespace busbw::fastpath {

/// Returns the integer from `min` to `max` that the text consists of, or nothing. Leading zeros are refused.
inline std::optional<int> number_between(std::string_view text, int min, int max) {
  const auto number = parse_integer(text);
  if (text.find_first_not_of("0123456789") != text.npos || !number || *number < min || *number > max)
    return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace busbw::fastpath
