#pragma once
// Finds ranks that the others waited for in a measurement; make_row calls this. docs/explanation/measuring.md explains
// the limits.
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// A measurement with its numbers of operations.
struct TimedMeasurement {
  const Measurement& measurement;
  double operations;                // timed operations of each rank
  double operations_per_iteration;  // operations of each rank in one iteration
};

/// Returns the late ranks of `timed`: at most one each of the kinds late_start, slow_launch and late_first. `other`:
/// the row's other placement; if it is not null, both placements must show the rank, because one placement may show a
/// rank by chance. `ranks`: those of the group.
std::vector<LateRank> find_late_ranks(const TimedMeasurement& timed, const TimedMeasurement* other,
                                      const std::vector<RankInfo>& ranks);

}  // namespace busbw
