#pragma once
// A barrier that lies in memory which threads and processes share.
#include <atomic>
#include <cstdint>

#include "rendezvous/team/wait.hpp"

namespace busbw {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

/// Counts arrivals; the last one opens the next generation. What a rank wrote before it arrived is seen by every rank
/// that has passed: each arrival releases to the next one, the last arrival releases to all that wait.
class Barrier {
 public:
  /// Returns when `parties` ranks have called it; all pass the same number. Throws Aborted where an abort comes first.
  void arrive_and_wait(int parties, const Team& team) {
    // Cannot change before this rank has arrived.
    const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
    if constexpr (kUnderThreadSanitizer) seen_[generation % 2].fetch_add(1, std::memory_order_release);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(parties)) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    wait_until(team, [&] { return generation_.load(std::memory_order_acquire) != generation; });
    if constexpr (kUnderThreadSanitizer) static_cast<void>(seen_[generation % 2].load(std::memory_order_acquire));
  }

 private:
  // A lock inside an atomic would belong to one process.
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  // Apart, so that arrivals do not take the line away from those who wait for the generation.
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  // ThreadSanitizer sees one process. Where the last to arrive is in another, it misses that release of generation_ and
  // takes two threads of this process for unordered. So under it alone, arrivals are also released and acquired here:
  // in turns, because acquiring the next generation's arrivals too would hide real races.
  std::atomic<std::uint32_t> seen_[2] = {};
};

}  // namespace busbw
