#pragma once
// Samples by timestamps of the device (CUDA events) between iterations that start when they are issued.
#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

/// With graphs (-G), the first iteration of each launch has no sample, because a rank waits in it for the launches of
/// other ranks.
class DeviceEventStrategy final : public SamplingStrategy {
 public:
  DeviceEventStrategy(IterationRunner& runner, TotalTime total_source)
      : runner_(runner),
        total_source_(total_source),
        timestamps_(*runner.communicator().timestamps(), runner.has_untimed_barriers()) {}
  void sample(Samples& batch) override;

 private:
  /// Moment at which the device's clock state is queried, relative to the batch.
  enum class ClockStateQuery { never, while_running, after_completion };
  /// Selects while_running, unless the query would become part of the batch's total time.
  ClockStateQuery select_clock_state_query() const;
  /// Runs all iterations once, or launches their graph once. Returns the host-clock time.
  HostTiming launch(Samples& batch, ClockStateQuery query);
  void add_samples(Samples& batch) const;

  IterationRunner& runner_;
  TotalTime total_source_;
  IterationTimestamps timestamps_;
};

/// Number of graph launches that are sampled: -G, up to 100,000 samples; 1 without graphs.
std::size_t sampled_launches(const IterationRunner& runner);

}  // namespace busbw
