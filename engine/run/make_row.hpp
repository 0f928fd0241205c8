#pragma once
// What the ranks of a group report becomes a row.
#include <map>
#include <vector>

#include "measure/rank_report.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// One placement of one group: its ranks' reports in rank order, and why sampling stopped.
struct PlacementReport {
  std::vector<RankReport> ranks;
  StopReason stopped_by = StopReason::iterations;
};

/// Which case a row is of.
struct CaseLabel {
  const Configuration& configuration;
  std::uint64_t requested_bytes = 0;
  int group = 0;
  int cycle = 0;
  std::vector<int> members;  // the group's ranks, in the job
};

/// `policy`: "exact", or what exact data cannot show.
Row make_row(const RunPlan& plan, const CaseLabel& label, const std::map<Placement, PlacementReport>& placements,
             const std::string& policy);

}  // namespace busbw
