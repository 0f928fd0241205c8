#pragma once
// Memory of the collectives: two buffers for each rank of this machine or process.
#include <cstddef>
#include <span>

#include "backends/host/arena.hpp"

namespace busbw {

/// Page-aligned buffers, with optional memory in front of them for the owner's own use.
class RankBuffers {
 public:
  /// Rounds up to whole pages.
  static std::size_t page_aligned(std::size_t bytes);

  /// `front_bytes` must be page-aligned. Throws EnvironmentError if the system refuses the memory.
  RankBuffers(int ranks, std::size_t buffer_bytes, std::size_t front_bytes, Sharing sharing);

  std::byte* front() const { return arena_.data(); }
  std::span<std::byte> send_buffer(int rank) const { return buffer(2 * rank); }
  std::span<std::byte> recv_buffer(int rank) const { return buffer(2 * rank + 1); }

 private:
  std::span<std::byte> buffer(int index) const;

  std::size_t buffer_bytes_;
  std::size_t front_bytes_;
  Arena arena_;
};

}  // namespace busbw
