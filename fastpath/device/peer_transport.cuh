#pragma once
// Transport of cells to the GPUs of peers over NVLink. schedule.hpp documents the functions of a Fabric.
//
// The 32 threads of a warp act together, and eight neighboring threads transfer one line with one instruction. The
// eighth cell of a line has 8 bytes of data and the tag, so only the eighth thread writes and compares the tag. For
// the other seven cells, the code assumes that a line arrives as a whole (line.hpp).
#include "fastpath/device/launch.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// The Fabric of schedule.hpp for one thread of a GPU. `kMax`: maximum number of ranks, a constant because the arrays
/// are in registers. `batch`: cells per thread and step.
template <int kMax>
class PeerTransport {
 public:
  static constexpr int kMaxRanks = kMax;

  __device__ PeerTransport(const Lane& lane, int rank, int ranks, int batch)
      : lane_(lane),
        rank_(rank),
        ranks_(ranks),
        batch_(batch),
        thread_(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)),
        has_tag_(threadIdx.x % kCellsOfLine == kCellsOfLine - 1) {}

  __device__ __forceinline__ int rank() const { return rank_; }
  __device__ __forceinline__ int ranks() const { return ranks_; }
  __device__ __forceinline__ int thread() const { return thread_; }
  __device__ __forceinline__ int threads() const { return static_cast<int>(gridDim.x * blockDim.x); }

  __device__ __forceinline__ int batch() const { return batch_; }

  __device__ __forceinline__ void put(int peer, int region, int batch_index, std::uint64_t tag,
                                      const Cell& cell) const {
    __syncwarp();  // the eight threads of a line must write the line with one instruction
    char* slot = lane_.slots_of[peer] + offset_of_slot(region, batch_index, tag, rank_);
    const std::uint64_t high = has_tag_ ? tag : cell.high;  // the eighth cell has no data in `high`
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(slot), "l"(cell.low), "l"(high) : "memory");
  }

  __device__ __forceinline__ bool take(int region, int batch_index, std::uint64_t tag, Cell (&cells)[kMax]) const {
    // The eight threads of a line must read the line with one instruction. __syncwarp() ensures that for the first
    // poll, and __all_sync() for later polls.
    __syncwarp();
    const char* slots = lane_.slots_of[rank_] + offset_of_slot(region, batch_index, tag, 0);
    for (unsigned polls = 1;; ++polls) {
      bool arrived = true;
#pragma unroll
      for (int source = 0; source < kMax; ++source) {
        if (source >= ranks_ || source == rank_) continue;
        Cell& cell = cells[source];
        asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(cell.low), "=l"(cell.high)
                     : "l"(slots + static_cast<std::size_t>(source) * bytes_of_source())
                     : "memory");
        arrived = arrived && (!has_tag_ || cell.high == tag);
      }
      if (__all_sync(0xffffffffu, arrived)) return true;
      if (polls % kPollsBetweenAbortChecks == 0 && is_aborted()) return false;
    }
  }

  /// Barrier with the same block of all ranks. All threads of the block must call the function. One warp exchanges
  /// cells for the block. The first __syncthreads() and the first fence order the earlier accesses of all threads of
  /// the block before the writes of the cells.
  __device__ __forceinline__ bool barrier(std::uint64_t tag) const {
    __syncthreads();
    bool arrived = true;
    if (threadIdx.x < kWarpThreads) {
      fence();
#pragma unroll
      for (int peer = 0; peer < kMax; ++peer)
        if (peer < ranks_ && peer != rank_) put(peer, kFirstRegion, /*batch_index=*/0, tag, Cell{});
      Cell cells[kMax];
      arrived = take(kFirstRegion, /*batch_index=*/0, tag, cells);
      fence();
    }
    return __syncthreads_and(arrived ? 1 : 0) != 0;
  }

 private:
  /// Fence with acquire-release order. Cheaper than __threadfence_system(), which is sequentially consistent.
  static __device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

  // The abort flag is in host memory, and a read of the flag takes about as long as a short operation. This number of
  // polls takes about ten milliseconds.
  static constexpr unsigned kPollsBetweenAbortChecks = 1u << 14;

  /// Size of the slots for cells from one source rank.
  __device__ __forceinline__ std::size_t bytes_of_source() const {
    return static_cast<std::size_t>(lane_.cells) * kCellBytes;
  }

  /// Offset in bytes of this thread's slot for cells from `source`. The order of the slots is: tag parity, region,
  /// source rank, cell.
  __device__ __forceinline__ std::size_t offset_of_slot(int region, int batch_index, std::uint64_t tag,
                                                        int source) const {
    const auto parity_and_region = static_cast<std::size_t>(tag & 1) * kRegions + static_cast<std::size_t>(region);
    const auto source_index = parity_and_region * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(source);
    const auto cell_index = static_cast<std::size_t>(batch_index * threads() + thread_);
    return source_index * bytes_of_source() + cell_index * kCellBytes;
  }

  __device__ bool is_aborted() const {
    return __any_sync(0xffffffffu, *static_cast<const volatile std::uint32_t*>(lane_.aborted) != 0);
  }

  const Lane& lane_;
  int rank_;
  int ranks_;
  int batch_;
  int thread_;
  bool has_tag_;  // true if this thread transfers the eighth cell of a line
};

}  // namespace busbw::fastpath
