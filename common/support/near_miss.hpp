#pragma once
// Finds the name that a user probably meant.
#include <span>
#include <string>
#include <string_view>

namespace busbw {

/// Returns the candidate that `word` probably misspells: the nearest one that differs in case or in up to a third of
/// the letters. Otherwise returns the only one that begins with `word`. Empty if there is no such candidate.
std::string_view near_miss(std::string_view word, std::span<const std::string_view> candidates);

/// Returns the addition to a wrong word in an error message: " (did you mean NAME?)". Empty without a near candidate.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace busbw
