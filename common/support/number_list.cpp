#include "common/support/number_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbw {

std::string number_list_text(std::span<const int> numbers) {
  constexpr std::size_t kMaxListed = 8;
  const auto listed = numbers.first(std::min(numbers.size(), kMaxListed));
  if (numbers.size() > kMaxListed)
    return fmt::format("{} and {} more", fmt::join(listed, ", "), numbers.size() - kMaxListed);
  if (numbers.size() < 2) return fmt::format("{}", fmt::join(listed, ", "));
  return fmt::format("{} and {}", fmt::join(listed.first(listed.size() - 1), ", "), listed.back());
}

}  // namespace busbw
