#pragma once
// Samples by the host clock, for backends that complete an operation before its call returns.
#include "measure/sampling/host_timestamps.hpp"
#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

class HostClockStrategy final : public SamplingStrategy {
 public:
  HostClockStrategy(IterationRunner& runner, TotalTime total)
      : runner_(runner), total_(total), timestamps_(clock_, runner.has_untimed_barriers()) {}
  void sample(Samples& batch) override;

 private:
  IterationRunner& runner_;
  TotalTime total_;
  HostTimestamps clock_;
  IterationTimestamps timestamps_;
};

}  // namespace busbw
