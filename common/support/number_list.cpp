#include "common/support/number_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbw {

std::string number_list_text(std::span<const int> numbers) {
  constexpr std::size_t kNamed = 8;
  const auto named = numbers.first(std::min(numbers.size(), kNamed));
  if (numbers.size() > kNamed) return fmt::format("{} and {} more", fmt::join(named, ", "), numbers.size() - kNamed);
  if (numbers.size() < 2) return fmt::format("{}", fmt::join(named, ", "));
  return fmt::format("{} and {}", fmt::join(named.first(named.size() - 1), ", "), named.back());
}

}  // namespace busbw
