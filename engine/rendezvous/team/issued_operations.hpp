#pragma once
// Which operation a rank issued last, for who watches over it.
#include <atomic>
#include <cstdint>

namespace busbw {

/// Written by the rank alone, in the loop that is timed; read by any thread, or process that shares its memory.
class IssuedOperations {
 public:
  /// The rank issues its next operation, on so many bytes.
  void next(std::uint64_t bytes) noexcept {
    operations_.store(operations() + 1, std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
  }
  std::uint64_t operations() const noexcept { return operations_.load(std::memory_order_relaxed); }
  /// Of the last of them.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "atomics are shared between processes");

  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace busbw
