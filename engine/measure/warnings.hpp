#pragma once
// What to know about a measurement, and what to do: a closed list (docs/measuring.md gives the rules and their reasons).
#include <string>
#include <vector>

#include "support/result.hpp"

namespace busbw {

/// All that holds for `measurement`, whose other fields are set; `operations`: how many its time is over, and `ranks`: the
/// numbers in the job of those that took part.
std::vector<std::string> warnings_of(const RunSettings& settings, const Measurement& measurement, double operations,
                                     const std::vector<int>& ranks);

}  // namespace busbw
