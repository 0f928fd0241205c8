#pragma once
// Busy waiting for another rank of a team, in shared memory.
#include <sched.h>
#include <unistd.h>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Number of polls before a waiting rank yields the core. There are often more ranks than cores, and the awaited rank
/// may need this core.
inline constexpr int kPollsBeforeYield = 128;

/// Number of yields, tens of milliseconds together, before a waiting rank sleeps between its polls. A job that waits
/// for a request of `busbw find` must leave the cores to that program.
inline constexpr int kYieldsBeforeSleep = 1 << 16;
inline constexpr unsigned kSleepUs = 500;  // between two polls

/// Tells the processor that this is a busy wait, so that a sibling thread gets more of the core.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Throws JobAborted if the team's job is aborted.
inline void throw_if_aborted(const Team& team) {
  if (team.aborted()) throw JobAborted{};
}

/// Polls `is_ready` until it returns true. Throws JobAborted if the team is aborted first.
template <class Condition>
void wait_until(const Team& team, Condition is_ready) {
  for (int poll = 0; poll < kPollsBeforeYield; ++poll) {
    if (is_ready()) return;
    pause_briefly();
  }
  for (int yields = 0; !is_ready(); ++yields) {
    if (team.aborted()) {
      // The condition may have become true between its last check and the abort.
      if (is_ready()) return;
      throw JobAborted{};
    }
    if (yields < kYieldsBeforeSleep) {
      sched_yield();
    } else {
      usleep(kSleepUs);
    }
  }
}

}  // namespace busbw
