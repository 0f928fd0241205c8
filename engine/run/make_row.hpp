#pragma once
// Makes a row of the table from the reports of a group's ranks. rank_runner calls it on rank 0 after each case. A group
// is the ranks of one communicator; there are several under NCCL_TESTS_SPLIT.
#include <map>
#include <vector>

#include "interference/neighbor.hpp"
#include "measure/rank_report.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// One placement (in-place or out-of-place) of one group: its ranks' reports in rank order, and the reason that ended
/// sampling.
struct PlacementReport {
  std::vector<RankReport> ranks;
  StopReason stopped_by = StopReason::iterations;
  /// Reports of RunPlan::balanced, or of the operation while the neighbor ran. Empty without both.
  std::vector<RankReport> compared = {};
  std::vector<NeighborActivity> neighbors = {};  // in rank order; empty without a neighbor
};

/// Identifies the case of a row.
struct CaseLabel {
  const Configuration& configuration;
  std::uint64_t requested_bytes = 0;
  int group = 0;                       // color of the group, 0 without NCCL_TESTS_SPLIT
  int cycle = 0;                       // repetition of the sweep (-N)
  const std::vector<RankInfo>& ranks;  // of the group
};

/// Shape of the balanced operation that moves as many bytes as the skewed operation with `shape`.
Shape balanced_shape(const RunPlan& plan, const Shape& shape, std::size_t element_bytes, int ranks);

/// Makes the row of one case of one group. `exactness`: ReductionValues::exactness(), which is "exact" or names the
/// errors that the data cannot show.
Row make_row(const RunPlan& plan, const CaseLabel& label, const std::map<Placement, PlacementReport>& placements,
             const std::string& exactness);

}  // namespace busbw
