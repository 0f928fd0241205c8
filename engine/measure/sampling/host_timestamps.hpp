#pragma once
// Host-clock timestamps, for backends that complete an operation before its call returns.
#include <vector>

#include "backends/backend.hpp"
#include "measure/clock.hpp"

namespace busbw {

class HostTimestamps final : public Timestamps {
 public:
  void reset(std::size_t count) override { times_s_.assign(count, 0); }
  void set(std::size_t index) override { times_s_[index] = monotonic_s(); }
  double seconds_between(std::size_t from, std::size_t to) const override { return times_s_[to] - times_s_[from]; }

 private:
  std::vector<double> times_s_;
};

}  // namespace busbw
