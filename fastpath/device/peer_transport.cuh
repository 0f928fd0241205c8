#pragma once
// How a cell reaches a peer's GPU: the Fabric of schedule.hpp. Threads of a warp act together.
#include "fastpath/device/launch.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

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
        writes_tag_(threadIdx.x % kCellsOfLine == kCellsOfLine - 1) {}

  __device__ __forceinline__ int rank() const { return rank_; }
  __device__ __forceinline__ int ranks() const { return ranks_; }
  __device__ __forceinline__ int thread() const { return thread_; }
  __device__ __forceinline__ int threads() const { return static_cast<int>(gridDim.x * blockDim.x); }

  __device__ __forceinline__ int batch() const { return batch_; }

  __device__ __forceinline__ void put(int peer, int region, int turn, std::uint64_t tag, const Cell& cell) const {
    __syncwarp();  // a line is written by one instruction of its eight threads, whatever ways they came
    char* slot = lane_.slots_of[peer] + offset_of_slot(region, turn, tag, rank_);
    const std::uint64_t high = writes_tag_ ? tag : cell.high;
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(slot), "l"(cell.low), "l"(high) : "memory");
  }

  __device__ __forceinline__ bool take(int region, int turn, std::uint64_t tag, Cell (&cells)[kMax]) const {
    __syncwarp();  // and read by one; after the vote below the warp is together anyway
    const char* slots = lane_.slots_of[rank_] + offset_of_slot(region, turn, tag, 0);
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
        arrived = arrived && (!writes_tag_ || cell.high == tag);
      }
      if (__all_sync(0xffffffffu, arrived)) return true;
      if (polls % kPollsBetweenLooks == 0 && is_aborted()) return false;
    }
  }

  /// Of a block with all its threads. One warp speaks for them: what the others did before the barrier is done before
  /// what it writes behind the fence.
  __device__ __forceinline__ bool meet(std::uint64_t tag) const {
    __syncthreads();
    bool came = true;
    if (threadIdx.x < kWarpThreads) {
      fence();
#pragma unroll
      for (int peer = 0; peer < kMax; ++peer)
        if (peer < ranks_ && peer != rank_) put(peer, 0, 0, tag, Cell{});
      Cell cells[kMax];
      came = take(0, 0, tag, cells);
      fence();
    }
    return __syncthreads_and(came ? 1 : 0) != 0;
  }

 private:
  /// Lighter than __threadfence_system(), which puts all fences of the system into one order.
  static __device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

  // A look at the host's memory takes about as long as a short operation; this is about once in ten milliseconds.
  static constexpr unsigned kPollsBetweenLooks = 1u << 14;

  __device__ __forceinline__ std::size_t bytes_of_source() const {
    return static_cast<std::size_t>(lane_.cells) * kCellBytes;
  }

  __device__ __forceinline__ std::size_t offset_of_slot(int region, int turn, std::uint64_t tag, int source) const {
    const auto half = static_cast<std::size_t>(tag & 1) * kRegions + static_cast<std::size_t>(region);
    return (half * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(source)) * bytes_of_source() +
           static_cast<std::size_t>(turn * threads() + thread_) * kCellBytes;
  }

  __device__ bool is_aborted() const {
    return __any_sync(0xffffffffu, *static_cast<const volatile std::uint32_t*>(lane_.aborted) != 0);
  }

  const Lane& lane_;
  int rank_;
  int ranks_;
  int batch_;
  int thread_;
  bool writes_tag_;
};

}  // namespace busbw::fastpath
