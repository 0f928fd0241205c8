#pragma once
// When something is asked again that thousands of processes ask of one server: names of DNS, files of NFS.
#include <algorithm>

#include "common/os/ticker.hpp"

namespace busbw {

/// At once, after 1 to 1.25 s, and then more and more seldom until 4 to 5 s lie between two times; each process at
/// moments of its own, so that those that were started together do not ask together for long.
class Backoff {
 public:
  /// `is_first`: nothing was asked yet, so that the first time is now. Where all of it is to last less than 8 s, the
  /// pauses begin with an eighth of that.
  Backoff(int process, bool is_first, int limit_ticks)
      : seed_(static_cast<unsigned>(process)), pause_(std::clamp(limit_ticks / 8, 1, kTicksPerS)) {
    if (!is_first) schedule_next(0);
  }

  /// Whether it is time; if so, the next time is put off.
  bool is_due(int tick) {
    if (tick < next_tick_) return false;
    schedule_next(tick);
    return true;
  }

 private:
  void schedule_next(int tick) {
    seed_ = seed_ * 1664525U + 1013904223U;  // Numerical Recipes: good enough to tell processes apart
    constexpr unsigned kUpperBits = 16;
    next_tick_ = tick + pause_ + static_cast<int>((seed_ >> kUpperBits) % static_cast<unsigned>(pause_ / 4 + 1));
    pause_ = std::min(pause_ * 3 / 2 + 1, 4 * kTicksPerS);
  }

  unsigned seed_;
  int next_tick_ = 0;
  int pause_;
};

}  // namespace busbw
