#pragma once
// All-to-all by stores to the peers' memory, for kernels -D 1 and 2. A rank's send buffer holds one chunk per peer. The
// rank's threads load units (elements or vectors) of the chunks from its own memory and store them at the peers.
// The latency of loads limits the speed, so each thread has several loads in flight. The first loads start before the
// peers are ready. Warps begin with different peers, to keep all links and the rank's own memory busy.
#include <nccl_device.h>

#include <cstddef>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {

/// Number of loads that a thread issues before it stores the first result.
inline constexpr unsigned kLoads = 8;

/// The chunks that `rank` sends to all `ranks`, or one range of units in each chunk.
template <class Unit>
struct PeerChunks {
  const KernelArguments& call;
  std::size_t chunk_bytes;
  std::size_t skip_bytes;  // bytes of each chunk before the range
  std::size_t units;       // units of each chunk in the range
  int rank;
  int ranks;

  /// Address of the range in this rank's chunk for the peer.
  __device__ const Unit* source(int peer) const {
    return static_cast<const Unit*>(
        ncclGetLocalPointer(call.send_window, call.send_offset + peer * chunk_bytes + skip_bytes));
  }
  /// Address of the range in the peer's receive buffer.
  __device__ Unit* destination(int peer) const {
    return static_cast<Unit*>(
        ncclGetLsaPointer(call.recv_window, call.recv_offset + rank * chunk_bytes + skip_bytes, peer));
  }
};

/// The kLoads units that a thread moves at a time: `rows` units for each of kPeers peers. Successive rows of a thread
/// are as many units apart as there are threads.
template <class Unit, unsigned rows>
class LoadBatch {
 public:
  static constexpr int kPeers = kLoads / rows;

  __device__ LoadBatch(const PeerChunks<Unit>& chunks, const Worker& worker)
      : chunks_(chunks),
        send_base_(reinterpret_cast<const char*>(chunks.source(0))),
        row_stride_(static_cast<unsigned>(worker.count)),
        start_rank_((chunks.rank + static_cast<int>(worker.index / kWarpThreads)) % chunks.ranks) {}

  /// Loads this thread's rows from unit number `unit` on, for the peers of steps `step` to step + kPeers - 1.
  __device__ void load(std::size_t unit, int step) {
    units_left_ = units_left_from(unit);
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      destinations_[i] = nullptr;
      if (step + i >= chunks_.ranks) continue;
      const int peer = peer_of_step(start_rank_, step + i, chunks_.ranks);
      const Unit* const source = reinterpret_cast<const Unit*>(send_base_ + peer * chunks_.chunk_bytes) + unit;
      destinations_[i] = chunks_.destination(peer) + unit;
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (row * row_stride_ < units_left_) loaded_[i][row] = source[row * row_stride_];
    }
  }

  /// Stores the loaded units at the peers.
  __device__ void store() const {
#pragma unroll
    for (int i = 0; i < kPeers; ++i)
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (destinations_[i] && row * row_stride_ < units_left_) destinations_[i][row * row_stride_] = loaded_[i][row];
  }

 private:
  /// Units from `unit` to the end of the chunk, limited to the rows of all threads. The number fits in 32 bits.
  __device__ unsigned units_left_from(std::size_t unit) const {
    if (unit >= chunks_.units) return 0;
    const std::size_t units_left = chunks_.units - unit;
    return units_left < rows * row_stride_ ? static_cast<unsigned>(units_left) : rows * row_stride_;
  }

  const PeerChunks<Unit>& chunks_;
  const char* send_base_;  // the chunk for rank 0
  unsigned row_stride_;    // in units
  int start_rank_;         // step 0 serves the rank after this one
  unsigned units_left_ = 0;
  Unit* destinations_[kPeers];  // null: no peer
  Unit loaded_[kPeers][rows];
};

/// Moves all chunks in batches of `rows` rows. Every thread calls `wait` once, before its first store.
template <unsigned rows, class Unit, class Wait>
__device__ void move_in_rows(const PeerChunks<Unit>& chunks, const Worker& worker, const Wait& wait) {
  LoadBatch<Unit, rows> batch(chunks, worker);
  std::size_t unit = worker.index;
  int step = 0;
  batch.load(unit, step);
  wait();
#pragma unroll 1
  while (unit < chunks.units) {
    batch.store();
    step += LoadBatch<Unit, rows>::kPeers;
    if (step >= chunks.ranks) {
      step = 0;
      unit += worker.count * rows;
    }
    batch.load(unit, step);
  }
}

/// Moves all chunks. A chunk with more than 4 units per thread is moved in batches of kLoads rows. With fewer units, a
/// batch has fewer rows and serves more peers. `wait` returns when the peers are ready to receive.
template <class Unit, class Wait>
__device__ void move_chunks(const PeerChunks<Unit>& chunks, const Worker& worker, const Wait& wait) {
  if (chunks.units > worker.count * 4) {
    move_in_rows<kLoads>(chunks, worker, wait);
  } else if (chunks.units > worker.count) {
    move_in_rows<4>(chunks, worker, wait);
  } else {
    move_in_rows<1>(chunks, worker, wait);
  }
}

}  // namespace busbw
