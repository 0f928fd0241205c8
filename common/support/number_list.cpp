// Joins numbers for messages, at most eight of them.
#include "common/support/number_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbw {

std::string number_list_text(std::span<const int> numbers) {
  constexpr std::size_t kMaxShown = 8;
  const auto shown = numbers.first(std::min(numbers.size(), kMaxShown));
  if (numbers.size() > kMaxShown)
    return fmt::format("{} and {} more", fmt::join(shown, ", "), numbers.size() - kMaxShown);
  if (numbers.size() < 2) return fmt::format("{}", fmt::join(shown, ", "));
  return fmt::format("{} and {}", fmt::join(shown.first(shown.size() - 1), ", "), shown.back());
}

std::string process_ranks_text(int process, int ranks_per_process) {
  const int first = process * ranks_per_process;
  if (ranks_per_process == 1) return fmt::format("rank {}", first);
  return fmt::format("ranks {} to {}", first, first + ranks_per_process - 1);
}

}  // namespace busbw
