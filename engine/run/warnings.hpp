#pragma once
// What to know about a measurement, and what to do: a closed list (docs/measuring.md gives the rules and their
// reasons).
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// A measurement, whose other fields are set, and how many operations its time is over.
struct TimedMeasurement {
  const Measurement& measurement;
  double operations;
};

/// All that holds for `of`. `other`: the same row's other placement, measured by the same ranks; null where there is
/// none. `ranks`: the numbers in the job of those that took part.
std::vector<std::string> measurement_warnings(const RunSettings& settings, const TimedMeasurement& of, const TimedMeasurement* other,
                                     const std::vector<int>& ranks);

}  // namespace busbw
