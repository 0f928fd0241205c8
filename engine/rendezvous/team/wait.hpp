#pragma once
// Busy waiting between ranks.
#include <sched.h>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Number of polls before a waiting rank yields the core. There are often more ranks than cores, and the awaited rank
/// may need this core.
inline constexpr int kSpins = 128;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns when `ready()` is true. Throws JobAborted if the team is aborted first.
template <class Ready>
void wait_until(const Team& team, Ready ready) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (ready()) return;
    pause_briefly();
  }
  while (!ready()) {
    if (team.aborted()) {
      // The condition may have become true between its last check and the abort.
      if (ready()) return;
      throw JobAborted{};
    }
    sched_yield();
  }
}

}  // namespace busbw
