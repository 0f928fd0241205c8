#pragma once
// Samples by the host clock, for backends that complete an operation before its call returns.
#include <cstddef>
#include <span>
#include <vector>

#include "backends/observing_communicator.hpp"
#include "measure/sampling/host_timestamps.hpp"
#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

/// Measures the delay between a host timestamp and the start of the rank's next operation. Reads the clock once at the
/// first operation after each timestamp.
class StartDelayCommunicator final : public ObservingCommunicator {
 public:
  /// Both arguments must outlive this object.
  StartDelayCommunicator(Communicator& inner, HostTimestamps& timestamps)
      : ObservingCommunicator(inner), timestamps_(timestamps) {}

  /// Allocates memory for the delays of further timestamps, so that none is allocated while time is measured.
  void reserve(std::size_t timestamps) { delays_s_.resize(count_ + timestamps); }
  /// Delays so far in seconds, one per timestamp that an operation followed.
  std::span<const double> delays_s() const { return std::span(delays_s_).first(count_); }

 private:
  void begin_operation(const ObservedOperation& /*operation*/) override {
    if (const auto timestamp_s = timestamps_.take_latest_s(); timestamp_s && count_ < delays_s_.size())
      delays_s_[count_++] = monotonic_s() - *timestamp_s;
  }

  HostTimestamps& timestamps_;
  std::vector<double> delays_s_;  // the first `count_` are measured
  std::size_t count_ = 0;
};

/// Measures samples and the start delay: the time from the end of one iteration to the start of the next one. An
/// operation that waits for all ranks ends on all of them at about the same moment. So the start delay is the rank's
/// arrival, and ranks on different machines need no common clock. With other operations, such as a broadcast, it is
/// only the rank's own pause.
///
/// Reading the clock once more per iteration must not change the samples. Iterations that also give the total time
/// (TotalTime::from_samples) are long enough for that. Shorter iterations are repeated, untimed, for the start delay.
class HostClockStrategy final : public SamplingStrategy {
 public:
  HostClockStrategy(IterationRunner& runner, TotalTime total_source)
      : runner_(runner),
        total_source_(total_source),
        timestamps_(host_timestamps_, runner.has_untimed_barriers()),
        delay_communicator_(runner.communicator(), host_timestamps_),
        delay_runner_(runner, delay_communicator_) {}
  void sample(Samples& batch) override;
  /// Adds the start delay of all batches.
  void complete(Samples& samples) override;

 private:
  IterationRunner& runner_;
  TotalTime total_source_;
  HostTimestamps host_timestamps_;
  IterationTimestamps timestamps_;
  StartDelayCommunicator delay_communicator_;
  IterationRunner delay_runner_;  // the same iterations over delay_communicator_
};

}  // namespace busbw
