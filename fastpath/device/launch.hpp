#pragma once
// Launches the kernels of operations. This is the interface between host code and kernels.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {

/// A lane: one sequence of operations of a rank, with the slots at all ranks and the last tag. Its operations run one
/// after another. fastpath/schedule/schedule.hpp defines cell, step, slot, region and tag.
struct Lane {
  char* slots_of[kMaxRanks] = {};          ///< the lane's slots at each rank, as addresses for this rank's GPU
  std::uint64_t* tags = nullptr;           ///< last tag used, stored once for each of kMaxBlocks blocks
  /// Number of slots for each peer, region and parity of the tag. A step sends at most this number of cells to a peer.
  /// The same on every rank.
  int cells = 0;
  bool starts_early = false;  ///< the GPU can start a kernel before the previous one has ended
  const std::uint32_t* aborted = nullptr;  ///< flag in host memory: not 0 if the communicator is aborted
};

/// Returns the size of a lane's slots at one rank: even and odd tags, each region, each source rank, each cell.
constexpr std::size_t lane_bytes(int ranks, int cells) {
  return std::size_t{2} * kRegions * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(cells) * kCellBytes;
}

/// Loads the kernels for this number of ranks onto the current device. Otherwise CUDA loads a kernel at its first
/// launch, which can wait until the GPU is idle. That is a deadlock if the GPU waits for a peer's kernel that this
/// thread would launch next.
void preload_kernels(int ranks);

/// Queues an operation on a stream of the current device.
cudaError_t launch(const Operation& operation, const Lane& lane, cudaStream_t stream);

/// Queues a kernel that ends when all of `lane.tags` have reached `tag`, so that a stream waits for operations on other
/// streams.
cudaError_t launch_wait(const Lane& lane, std::uint64_t tag, cudaStream_t stream);

}  // namespace busbw::fastpath
