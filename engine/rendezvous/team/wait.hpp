#pragma once
// How ranks wait for each other.
#include <sched.h>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Looks at `ready` this often before giving the core to another rank. More ranks than cores is normal, and then the
/// rank waited for may need this very core: spinning for long would only delay it.
inline constexpr int kSpins = 128;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns once `ready()` holds; throws Aborted if the team is aborted first.
template <class Ready>
void wait_until(const Team& team, Ready ready) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (ready()) return;
    pause_briefly();
  }
  while (!ready()) {
    if (team.aborted()) {
      // It may have become ready since it was looked at, and the team aborted only then.
      if (ready()) return;
      throw JobAborted{};
    }
    sched_yield();
  }
}

}  // namespace busbw
