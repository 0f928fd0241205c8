#pragma once
// One placement of one case: which batches are run, and when there are enough of them.
#include <vector>

#include "measure/rank_report.hpp"
#include "measure/sampler.hpp"

namespace busbw {

/// Called on every rank; `reports_of_all` has one entry for each rank on rank 0, where their samples are collected, and
/// none elsewhere. All must outlive the call.
StopReason sample_placement(Team& world, Communicator& communicator, const SampledCase& what,
                           const RunSettings& settings, std::vector<RankReport>& reports_of_all);

}  // namespace busbw
