#pragma once
// Counter of the operations that a rank has issued. The watchdog reads it to name the operation in which a rank hangs.
#include <atomic>
#include <cstdint>

namespace busbw {

/// Written only by the rank, in the timed loop. Read by any thread or process that shares the memory.
class IssuedOperations {
 public:
  /// Counts one more operation. `bytes` is its size.
  void next(std::uint64_t bytes) noexcept {
    operations_.store(operations() + 1, std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
  }
  std::uint64_t operations() const noexcept { return operations_.load(std::memory_order_relaxed); }
  /// Returns the size of the last operation.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "atomics are shared between processes");

  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace busbw
