#pragma once
// THE TIMING LOOP: samples one placement of one case in batches, until the stopping rule is satisfied.
#include <span>
#include <vector>

#include "measure/rank_report.hpp"
#include "measure/sampling/iteration_runner.hpp"

namespace busbw {

/// An activity of this rank that runs at the same time as the batches of a series. Each batch is sampled between
/// `start` and `stop`, which all ranks call.
class BackgroundActivity {
 public:
  virtual ~BackgroundActivity() = default;
  /// Returns after the activity has begun.
  virtual void start() = 0;
  /// Returns when the activity has ended. Throws its error.
  virtual void stop() = 0;
};

/// Batches of one case, either alone or next to a background activity.
struct Series {
  SampledCase sampled_case;
  std::vector<RankReport>& reports_of_all;  // as in `sample_placement`
  BackgroundActivity* activity = nullptr;   // null: none
};

/// Samples series that are compared with each other: their batches alternate. Several series have at least two batches
/// each. All ranks call it. Returns the reason that ended the first series. All arguments must outlive the call.
StopReason sample_series(Team& world, Communicator& communicator, std::span<const Series> series,
                         const RunSettings& settings);

/// Samples a placement; all ranks call it. On rank 0, `reports_of_all` has one entry per rank and receives the samples.
/// On other ranks it is empty. All arguments must outlive the call.
StopReason sample_placement(Team& world, Communicator& communicator, const SampledCase& sampled_case,
                            const RunSettings& settings, std::vector<RankReport>& reports_of_all);

}  // namespace busbw
