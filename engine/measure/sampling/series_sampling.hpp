#pragma once
// THE TIMING LOOP: samples a case in batches, until the stopping rule is satisfied. A case includes its placement: in
// place or out of place. A series is all batches of one case, either alone or next to a background activity.
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

/// A case to sample, and the destination of its samples.
struct Series {
  SampledCase sampled_case;
  /// Receives the samples. On rank 0, has one entry per rank. Empty on other ranks.
  std::vector<RankReport>& reports_of_all;
  BackgroundActivity* activity = nullptr;  // null: none
};

/// Samples all series, and appends the samples to their `reports_of_all`. All ranks call it.
///
/// The first series has a row in the table, and the others are compared with it. So this function returns the reason to
/// stop of the first series. The batches of several series alternate, and each series has at least two batches. All
/// arguments must outlive the call.
StopReason sample_series(Team& world, Communicator& communicator, std::span<const Series> series,
                         const RunSettings& settings);

/// Like `sample_series`, for one series without a background activity.
StopReason sample_case(Team& world, Communicator& communicator, const SampledCase& sampled_case,
                       const RunSettings& settings, std::vector<RankReport>& reports_of_all);

}  // namespace busbw
