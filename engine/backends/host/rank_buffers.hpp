#pragma once
// Memory of the collectives: a send and a receive buffer for each rank. Ranks are counted from 0 within the machine
// (shared memory) or the process (sockets).
#include <cstddef>
#include <span>

namespace busbw {

/// Processes that access the memory.
enum class Sharing {
  threads,    // threads of this process: private memory, for which the kernel provides huge pages more readily
  processes,  // this process and its forks
};

/// Page-aligned buffers, preceded by `front_bytes` of memory for other use, such as control data of shared memory. All
/// are in one anonymous mapping, which is zeroed and aligned to kAlignment, and which must be made before any fork.
/// Pages consume memory only after the first access.
class RankBuffers {
 public:
  /// Size of a huge page on x86-64 and most other machines. Huge pages need a mapping that starts on this boundary.
  static constexpr std::size_t kAlignment = std::size_t{2} << 20;

  /// Rounds `bytes` up to whole pages.
  static std::size_t page_aligned(std::size_t bytes);

  /// `front_bytes` must be page-aligned. Throws EnvironmentError if the system refuses the memory.
  RankBuffers(int ranks, std::size_t buffer_bytes, std::size_t front_bytes, Sharing sharing);
  ~RankBuffers();
  RankBuffers(const RankBuffers&) = delete;
  RankBuffers& operator=(const RankBuffers&) = delete;

  std::byte* front() const { return data_; }
  std::span<std::byte> send_buffer(int rank) const { return buffer(2 * rank); }
  std::span<std::byte> recv_buffer(int rank) const { return buffer(2 * rank + 1); }

 private:
  std::span<std::byte> buffer(int index) const;

  std::size_t buffer_bytes_;
  std::size_t front_bytes_;
  std::size_t mapped_bytes_;
  void* mapping_;
  std::byte* data_;  // aligned start in `mapping_`
};

}  // namespace busbw
