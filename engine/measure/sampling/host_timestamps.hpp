#pragma once
// Host-clock timestamps, for backends that complete an operation before its call returns.
#include <optional>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "measure/clock.hpp"

namespace busbw {

/// Timestamps of the monotonic host clock, one per index.
class HostTimestamps final : public Timestamps {
 public:
  void reset(std::size_t count) override { times_s_.assign(count, 0); }
  void set(std::size_t index) override {
    times_s_[index] = monotonic_s();
    latest_s_ = times_s_[index];
  }
  double seconds_between(std::size_t from, std::size_t to) const override { return times_s_[to] - times_s_[from]; }
  /// Returns the latest timestamp in seconds of the monotonic clock. Nothing if no timestamp was set since the previous
  /// call of this function. `reset` keeps the latest timestamp.
  std::optional<double> take_latest_s() { return std::exchange(latest_s_, std::nullopt); }

 private:
  std::vector<double> times_s_;
  std::optional<double> latest_s_;
};

}  // namespace busbw
