#pragma once
// Backoff with jitter for requests that thousands of processes send to one DNS or NFS server. A joining process repeats
// such a request until it finds process 0. Times are in ticks of 0.1 s.
#include <algorithm>

#include "common/os/ticker.hpp"

namespace busbw {

/// Schedule of requests: the first at once, the second after 1 to 1.2 s, then at growing intervals up to 4 to 5 s. The
/// jitter depends on the process number, so that processes started together spread their requests.
class Backoff {
 public:
  /// `is_due_at_once`: true if no request was sent before. `limit_ticks`: time after which the process gives up. Below
  /// 8 s, the first interval is an eighth of the limit instead of 1 s.
  Backoff(int process, bool is_due_at_once, int limit_ticks)
      : seed_(static_cast<unsigned>(process)), pause_ticks_(std::clamp(limit_ticks / 8, 1, kTicksPerS)) {
    if (!is_due_at_once) schedule_next(0);
  }

  /// Returns true if a request is due at `tick`, and then schedules the next one. The caller must send the due request.
  bool start_if_due(int tick) {
    if (tick < next_tick_) return false;
    schedule_next(tick);
    return true;
  }

 private:
  void schedule_next(int tick) {
    seed_ = seed_ * 1664525U + 1013904223U;  // generator from Numerical Recipes; good enough to spread processes
    const unsigned random = seed_ >> 16;     // the upper bits, which are more random than the lower ones
    const int jitter_ticks = static_cast<int>(random % static_cast<unsigned>(pause_ticks_ / 4 + 1));
    next_tick_ = tick + pause_ticks_ + jitter_ticks;
    pause_ticks_ = std::min(pause_ticks_ * 3 / 2 + 1, 4 * kTicksPerS);
  }

  unsigned seed_;
  int next_tick_ = 0;
  int pause_ticks_;
};

}  // namespace busbw
