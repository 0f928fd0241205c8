#pragma once
// Backoff with jitter for requests that thousands of processes send to one DNS or NFS server.
#include <algorithm>

#include "common/os/ticker.hpp"

namespace busbw {

/// Schedule of requests: the first at once, the second after 1 to 1.25 s, then at growing intervals up to 4 to 5 s. The
/// jitter depends on the process number, so that processes started together spread their requests.
class Backoff {
 public:
  /// `is_first`: no request was sent yet, so the first is due at once. If the total limit is below 8 s, the intervals
  /// start with an eighth of it.
  Backoff(int process, bool is_first, int limit_ticks)
      : seed_(static_cast<unsigned>(process)), pause_(std::clamp(limit_ticks / 8, 1, kTicksPerS)) {
    if (!is_first) schedule_next(0);
  }

  /// True if a request is due at `tick`. Also schedules the next one.
  bool is_due(int tick) {
    if (tick < next_tick_) return false;
    schedule_next(tick);
    return true;
  }

 private:
  void schedule_next(int tick) {
    seed_ = seed_ * 1664525U + 1013904223U;  // generator from Numerical Recipes; good enough to spread processes
    constexpr unsigned kUpperBits = 16;
    next_tick_ = tick + pause_ + static_cast<int>((seed_ >> kUpperBits) % static_cast<unsigned>(pause_ / 4 + 1));
    pause_ = std::min(pause_ * 3 / 2 + 1, 4 * kTicksPerS);
  }

  unsigned seed_;
  int next_tick_ = 0;
  int pause_;
};

}  // namespace busbw
