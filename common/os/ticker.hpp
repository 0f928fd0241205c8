#pragma once
// Timer that counts ticks of 100 ms, independent of the thread's work.
#include <cstdint>

#include "common/os/descriptor.hpp"

namespace busbw {

inline constexpr int kTickMs = 100;
inline constexpr int kTicksPerS = 1000 / kTickMs;

/// Periodic timer. Unlike poll timeouts, it also counts time spent in name lookups and in handling connections.
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

void sleep_tick();

/// Converts seconds to whole ticks. Values above 1e7 s count as 1e7 s, so that the result fits an int.
int ticks_of(double seconds);

}  // namespace busbw
