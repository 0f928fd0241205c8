#pragma once
// Ticks of 100 ms, and a timer that counts ticks. Limits of waits for other processes are numbers of ticks.
#include <cstdint>

#include "common/os/descriptor.hpp"

namespace busbw {

/// Duration of a tick in milliseconds, and ticks per second.
inline constexpr int kTickMs = 100;
inline constexpr int kTicksPerS = 1000 / kTickMs;

/// Periodic timer of the kernel (timerfd). Unlike poll timeouts, it also counts ticks that pass while the thread is
/// busy, for example in a name lookup.
class Ticker {
 public:
  /// Throws EnvironmentError if the system cannot create a timer.
  Ticker();
  /// Returns a descriptor that is readable when a tick has passed.
  int number() const { return timer_.number(); }
  /// Returns the ticks since the last call.
  std::uint64_t take_elapsed() const;

 private:
  Descriptor timer_;
};

/// Time limit of a wait.
class TickLimit {
 public:
  /// Starts the limit. Throws EnvironmentError if the system cannot create a timer.
  explicit TickLimit(double limit_s);
  void restart();
  /// True if the limit has passed since the last start.
  bool has_passed();

 private:
  Ticker ticker_;
  std::uint64_t limit_ticks_;
  std::uint64_t elapsed_ticks_ = 0;
};

void sleep_tick();

/// Converts seconds to whole ticks, rounded down. Values above 1e7 s count as 1e7 s, so that the result fits an int.
int ticks_of(double seconds);

}  // namespace busbw
