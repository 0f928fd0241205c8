#pragma once
// All-to-all by stores to the peers' memory: how one rank's threads move its parts, by elements or by vectors of them.
// What bounds it is how long a load takes, so each thread has several under way, the first ones before the peers are
// known to be ready: a rank loads from its own memory alone. Warps begin with different peers, so that all links, and
// the rank's own memory, are busy all the time.
#include <nccl_device.h>

#include <cstddef>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {

/// Loads that a thread has under way.
inline constexpr unsigned kLoads = 8;

/// One rank's parts for all `ranks`, or a range of the same `units` in each.
template <class Unit>
struct PeerChunks {
  const KernelArguments& call;
  std::size_t part_bytes;
  std::size_t skip_bytes;  // before the range, in each part
  std::size_t units;
  int rank;
  int ranks;

  __device__ const Unit* from(int peer) const {
    return static_cast<const Unit*>(
        ncclGetLocalPointer(call.send_window, call.send_offset + peer * part_bytes + skip_bytes));
  }
  __device__ Unit* to(int peer) const {
    return static_cast<Unit*>(
        ncclGetLsaPointer(call.recv_window, call.recv_offset + rank * part_bytes + skip_bytes, peer));
  }
};

/// What a thread moves at a time: `rows` units, as far from each other as there are threads, for each of some peers.
template <class Unit, unsigned rows>
class LoadBatch {
 public:
  static constexpr int kPeers = kLoads / rows;

  __device__ LoadBatch(const PeerChunks<Unit>& parts, const Worker& worker)
      : parts_(parts),
        from_first_(reinterpret_cast<const char*>(parts.from(0))),
        row_units_(static_cast<unsigned>(worker.count)),
        first_((parts.rank + static_cast<int>(worker.index / kWarpThreads)) % parts.ranks) {}

  /// Unit number `at` and its rows, for the peers from step number `step` on.
  __device__ void load(std::size_t at, int step) {
    left_ = left_from(at);
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      to_[i] = nullptr;
      if (step + i >= parts_.ranks) continue;
      const int peer = peer_of_step(first_, step + i, parts_.ranks);
      const Unit* const from = reinterpret_cast<const Unit*>(from_first_ + peer * parts_.part_bytes) + at;
      to_[i] = parts_.to(peer) + at;
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (row * row_units_ < left_) loaded_[i][row] = from[row * row_units_];
    }
  }

  /// What was loaded.
  __device__ void store() const {
#pragma unroll
    for (int i = 0; i < kPeers; ++i)
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
        if (to_[i] && row * row_units_ < left_) to_[i][row * row_units_] = loaded_[i][row];
  }

 private:
  /// Units from `at` on, as far as rows go: these fit in 32 bits.
  __device__ unsigned left_from(std::size_t at) const {
    if (at >= parts_.units) return 0;
    const std::size_t left = parts_.units - at;
    return left < rows * row_units_ ? static_cast<unsigned>(left) : rows * row_units_;
  }

  const PeerChunks<Unit>& parts_;
  const char* from_first_;  // the part for rank 0
  unsigned row_units_;
  int first_;
  unsigned left_ = 0;
  Unit* to_[kPeers];
  Unit loaded_[kPeers][rows];
};

/// Moves all parts. Calls `wait` once, in every thread, before anything is stored.
template <unsigned rows, class Unit, class Wait>
__device__ void move_by(const PeerChunks<Unit>& parts, const Worker& worker, const Wait& wait) {
  LoadBatch<Unit, rows> batch(parts, worker);
  std::size_t at = worker.index;
  int step = 0;
  batch.load(at, step);
  wait();
#pragma unroll 1
  while (at < parts.units) {
    batch.store();
    step += LoadBatch<Unit, rows>::kPeers;
    if (step >= parts.ranks) {
      step = 0;
      at += worker.count * rows;
    }
    batch.load(at, step);
  }
}

/// The same, with as many rows as there is work for: what a batch does not need for rows it has for peers.
template <class Unit, class Wait>
__device__ void move_chunks(const PeerChunks<Unit>& parts, const Worker& worker, const Wait& wait) {
  if (parts.units > worker.count * 4) {
    move_by<kLoads>(parts, worker, wait);
  } else if (parts.units > worker.count) {
    move_by<4>(parts, worker, wait);
  } else {
    move_by<1>(parts, worker, wait);
  }
}

}  // namespace busbw
