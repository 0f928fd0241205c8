#pragma once
// Lists with commas, as flags and variables have them.
#include <string_view>
#include <vector>

namespace busbw {

/// Returns the parts of a text between its commas: "a,b" has "a" and "b", "a," has "a" and "", "" has "".
inline std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace busbw
