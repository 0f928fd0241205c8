#pragma once
// Measures the delay between a host timestamp and the start of the rank's next operation.
#include <cstddef>
#include <span>
#include <vector>

#include "backends/observing_communicator.hpp"
#include "measure/sampling/host_timestamps.hpp"

namespace busbw {

/// Reads the clock once at the first operation after each timestamp.
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

}  // namespace busbw
