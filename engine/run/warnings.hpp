#pragma once
// Warnings about a measurement, each with a remedy; make_row calls this. docs/measuring.md has the complete list of
// rules with reasons.
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// A measurement, complete except for its warnings, and the number of timed operations of each rank.
struct TimedMeasurement {
  const Measurement& measurement;
  double operations;
};

/// Returns the warnings about `timed`. `other` is the same row's other placement, measured by the same ranks; null if
/// it was not measured. `ranks` are the group's ranks, numbered in the job.
std::vector<std::string> measurement_warnings(const RunSettings& settings, const TimedMeasurement& timed,
                                              const TimedMeasurement* other, const std::vector<int>& ranks);

}  // namespace busbw
