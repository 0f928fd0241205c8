#pragma once
// Tenths of a second that pass, whatever a thread does meanwhile.
#include <cstdint>

#include "common/os/descriptor.hpp"

namespace busbw {

inline constexpr int kTickMs = 100;
inline constexpr int kTicksPerS = 1000 / kTickMs;

/// Unlike timeouts of poll it counts what a look-up of a name or a flood of visitors takes, too.
class Ticker {
 public:
  /// Throws EnvironmentError where the system has no timer for it.
  Ticker();
  /// The descriptor to poll for the next tick.
  int number() const { return timer_.number(); }
  /// Ticks since the last call.
  std::uint64_t take_elapsed() const;

 private:
  Descriptor timer_;
};

/// Sleeps for a tick.
void sleep_tick();

/// The whole ticks in so many seconds; no more than an int holds.
int ticks_of(double seconds);

}  // namespace busbw
