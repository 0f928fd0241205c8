#pragma once
// Numbers as a person writes them into a table or the environment.
#include <optional>
#include <string_view>

#include "common/values/quantity.hpp"

namespace busbw::fastpath {

/// A whole number in decimal digits that is all of the text, from `least` to `most`; 08 is none.
inline std::optional<int> number_between(std::string_view text, int least, int most) {
  const auto number = parse_integer(text);
  if (text.find_first_not_of("0123456789") != text.npos || !number || *number < least || *number > most)
    return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace busbw::fastpath
