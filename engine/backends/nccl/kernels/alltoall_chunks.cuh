#pragma once
// All-to-all by stores to the peers' memory: distributes the chunks of one rank over its threads, by elements or
// vectors. The latency of loads limits the speed, so each thread has several loads in flight. The first loads start
// before the peers are ready, because a rank loads only from its own memory. Warps begin with different peers, to keep
// all links and the rank's own memory busy.
#include <nccl_device.h>

#include <cstddef>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {

/// Loads that a thread has in flight.
inline constexpr unsigned kLoads = 8;

/// Chunks of one rank for all `ranks`, or the same range of `units` in each chunk.
template <class Unit>
struct PeerChunks {
  const KernelArguments& call;
  std::size_t chunk_bytes;
  std::size_t skip_bytes;  // before the range, in each chunk
  std::size_t units;
  int rank;
  int ranks;

  __device__ const Unit* from(int peer) const {
    return static_cast<const Unit*>(
        ncclGetLocalPointer(call.send_window, call.send_offset + peer * chunk_bytes + skip_bytes));
  }
  __device__ Unit* to(int peer) const {
    return static_cast<Unit*>(
        ncclGetLsaPointer(call.recv_window, call.recv_offset + rank * chunk_bytes + skip_bytes, peer));
  }
};

/// Units that a thread moves at a time: `rows` units for each of several peers. The distance between rows is the number
/// of threads.
template <class Unit, unsigned rows>
class LoadBatch {
 public:
  static constexpr int kPeers = kLoads / rows;

  __device__ LoadBatch(const PeerChunks<Unit>& chunks, const Worker& worker)
      : chunks_(chunks),
        from_first_(reinterpret_cast<const char*>(chunks.from(0))),
        row_units_(static_cast<unsigned>(worker.count)),
        first_((chunks.rank + static_cast<int>(worker.index / kWarpThreads)) % chunks.ranks) {}

  /// Loads unit number `at` and its rows for the peers from step number `step` on.
  __device__ void load(std::size_t at, int step) {
    units_left_ = units_left_from(at);
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      to_[i] = nullptr;
      if (step + i >= chunks_.ranks) continue;
      const int peer = peer_of_step(first_, step + i, chunks_.ranks);
      const Unit* const from = reinterpret_cast<const Unit*>(from_first_ + peer * chunks_.chunk_bytes) + at;
      to_[i] = chunks_.to(peer) + at;
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (row * row_units_ < units_left_) loaded_[i][row] = from[row * row_units_];
    }
  }

  /// Stores the loaded units at the peers.
  __device__ void store() const {
#pragma unroll
    for (int i = 0; i < kPeers; ++i)
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (to_[i] && row * row_units_ < units_left_) to_[i][row * row_units_] = loaded_[i][row];
  }

 private:
  /// Units from `at` to the end of the rows. They fit in 32 bits.
  __device__ unsigned units_left_from(std::size_t at) const {
    if (at >= chunks_.units) return 0;
    const std::size_t units_left = chunks_.units - at;
    return units_left < rows * row_units_ ? static_cast<unsigned>(units_left) : rows * row_units_;
  }

  const PeerChunks<Unit>& chunks_;
  const char* from_first_;  // the chunk for rank 0
  unsigned row_units_;
  int first_;
  unsigned units_left_ = 0;
  Unit* to_[kPeers];
  Unit loaded_[kPeers][rows];
};

/// Moves all chunks. Every thread calls `wait` once, before the first store.
template <unsigned rows, class Unit, class Wait>
__device__ void move_by(const PeerChunks<Unit>& chunks, const Worker& worker, const Wait& wait) {
  LoadBatch<Unit, rows> batch(chunks, worker);
  std::size_t at = worker.index;
  int step = 0;
  batch.load(at, step);
  wait();
#pragma unroll 1
  while (at < chunks.units) {
    batch.store();
    step += LoadBatch<Unit, rows>::kPeers;
    if (step >= chunks.ranks) {
      step = 0;
      at += worker.count * rows;
    }
    batch.load(at, step);
  }
}

/// Moves all chunks, with as many rows per batch as there is work for. The other loads of a batch serve more peers.
template <class Unit, class Wait>
__device__ void move_chunks(const PeerChunks<Unit>& chunks, const Worker& worker, const Wait& wait) {
  if (chunks.units > worker.count * 4) {
    move_by<kLoads>(chunks, worker, wait);
  } else if (chunks.units > worker.count) {
    move_by<4>(chunks, worker, wait);
  } else {
    move_by<1>(chunks, worker, wait);
  }
}

}  // namespace busbw
