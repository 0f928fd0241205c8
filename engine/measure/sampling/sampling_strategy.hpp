#pragma once
// Interface of the sampling strategies: how a batch yields samples, its total time and the device time.
#include "measure/samples.hpp"

namespace busbw {

/// Source of the total time of a batch, the `time` column.
enum class TotalTime {
  separate,      // the batch runs once more, without timestamps
  from_samples,  // the iterations of the samples also give the total
};

/// Strategy of one rank for one case and placement.
class SamplingStrategy {
 public:
  virtual ~SamplingStrategy() = default;
  /// Runs one batch of iterations and adds their samples. Also adds their total time for TotalTime::from_samples, and
  /// their device time if the samples give it.
  virtual void sample(Samples& batch) = 0;
  /// Adds what the samples do not give: the device time, or the start delay. Called once, after all batches.
  virtual void complete(Samples& /*samples*/) {}
};

}  // namespace busbw
