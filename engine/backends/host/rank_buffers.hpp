#pragma once
// Memory of the collectives: a send and a receive buffer for each rank. Ranks are counted from 0 within the machine
// (shared memory) or the process (sockets).
#include <cstddef>
#include <span>

#include "backends/host/arena.hpp"

namespace busbw {

/// Page-aligned buffers, preceded by `front_bytes` of memory for other use, such as control data of shared memory.
class RankBuffers {
 public:
  /// Rounds `bytes` up to whole pages.
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
