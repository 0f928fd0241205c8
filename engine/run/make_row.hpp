#pragma once
// Makes a row from the reports of a group's ranks.
#include <map>
#include <vector>

#include "measure/rank_report.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// One placement of one group: its ranks' reports in rank order, and the reason that ended sampling.
struct PlacementReport {
  std::vector<RankReport> ranks;
  StopReason stopped_by = StopReason::iterations;
};

/// Identifies the case of a row.
struct CaseLabel {
  const Configuration& configuration;
  std::uint64_t requested_bytes = 0;
  int group = 0;
  int cycle = 0;
  std::vector<int> members;  // the group's ranks, numbered in the job
};

/// `policy` is "exact", or states what exact data cannot show.
Row make_row(const RunPlan& plan, const CaseLabel& label, const std::map<Placement, PlacementReport>& placements,
             const std::string& policy);

}  // namespace busbw
