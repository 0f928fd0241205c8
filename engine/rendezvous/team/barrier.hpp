#pragma once
// A barrier in memory that threads and processes share. LocalJob's teams use it.
#include <atomic>
#include <cstdint>

#include "rendezvous/team/wait.hpp"

namespace busbw {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

/// Counts arrivals. The generation is the number of completed uses of the barrier. The last arrival increments the
/// generation, and the other ranks wait for the new generation. Writes before an arrival are visible to all ranks after
/// the barrier: each arrival releases to the next one, and the last arrival releases to all waiting ranks.
class Barrier {
 public:
  /// Returns when `ranks` ranks have called this function; all pass the same `ranks`. Throws JobAborted if `team`'s job
  /// is aborted first.
  void arrive_and_wait(int ranks, const Team& team) {
    // The generation cannot change before this rank arrives.
    const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
    if constexpr (kUnderThreadSanitizer) tsan_arrivals_[generation % 2].fetch_add(1, std::memory_order_release);
    const std::uint32_t arrived = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (arrived == static_cast<std::uint32_t>(ranks)) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    wait_until(team, [&] { return generation_.load(std::memory_order_acquire) != generation; });
    if constexpr (kUnderThreadSanitizer)
      static_cast<void>(tsan_arrivals_[generation % 2].load(std::memory_order_acquire));
  }

 private:
  // A lock-based atomic would not work between processes.
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  // On separate cache lines, so that arrivals do not invalidate the line that waiting ranks read.
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  // ThreadSanitizer sees one process only. If the last rank arrives in another process, ThreadSanitizer misses the
  // release of generation_ and reports a race between threads of this process. So arrivals are also released and
  // acquired here. Two counters alternate, because acquiring arrivals of the next generation would hide real races.
  std::atomic<std::uint32_t> tsan_arrivals_[2] = {};
};

}  // namespace busbw
