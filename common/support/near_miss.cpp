// Finds the name that a misspelled word probably means: a name with few different letters, or the
// only name that begins with the word.
#include "common/support/near_miss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace busbw {
namespace {

constexpr std::size_t kMinLength = 3;        // shorter words differ from each other in too few letters
constexpr std::size_t kLettersPerError = 3;  // a word may have one wrong letter for this many letters

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return lower;
}

/// Returns the number of letters to insert, delete, replace or swap with their neighbor, to make `b` from `a` (optimal
/// string alignment). distance[i][j] is the number for the first i letters of `a` and the first j letters of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string_view near_miss(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kMaxLength = 64;  // limits the work for a word that is no misspelled name
  if (word.size() < kMinLength || word.size() > kMaxLength) return {};
  const std::string lower = lower_case(word);
  std::string_view nearest;
  std::size_t min_distance = lower.size() / kLettersPerError + 1;  // one more than the permitted errors
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(lower, lower_case(candidate));
    if (distance >= min_distance) continue;
    min_distance = distance;
    nearest = candidate;
  }
  if (!nearest.empty()) return nearest;
  const auto begins_with_word = [&](std::string_view candidate) { return lower_case(candidate).starts_with(lower); };
  if (std::ranges::count_if(candidates, begins_with_word) != 1) return {};
  return *std::ranges::find_if(candidates, begins_with_word);
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view name = near_miss(word, candidates);
  return name.empty() ? std::string() : fmt::format(" (did you mean {}?)", name);
}

}  // namespace busbw
