#pragma once
// THE TIMING LOOP: samples one placement of one case in batches, until the stopping rule is satisfied.
#include <vector>

#include "measure/rank_report.hpp"
#include "measure/sampling/iteration_runner.hpp"

namespace busbw {

/// Samples a placement; all ranks call it. On rank 0, `reports_of_all` has one entry per rank and receives the samples.
/// On other ranks it is empty. All arguments must outlive the call.
StopReason sample_placement(Team& world, Communicator& communicator, const SampledCase& sampled_case,
                            const RunSettings& settings, std::vector<RankReport>& reports_of_all);

}  // namespace busbw
