#pragma once
// Launches the kernels of operations. This is the interface between host code and kernels.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {

/// A lane: one sequence of operations of a rank, with the slots and tags that only these operations use. The operations
/// run one after another, as a sequence of steps. schedule/schedule.hpp explains these terms in detail:
///
/// - Cell: 16 bytes of data. In a step, a rank sends several cells to each peer.
/// - Tag: number of a step of the lane. Tags continue from one operation to the next.
/// - Slot: place in a rank's scratch memory for one cell from one peer.
/// - Region: set of slots. An operation of two phases uses one region for each phase.
struct Lane {
  char* slots_of[kMaxRanks] = {};  ///< the lane's slots at each rank, as addresses for this rank's GPU
  /// Tag of the last step of the last operation that has run, in a copy for each of kMaxBlocks blocks. The blocks of an
  /// operation update the copies one by one, so the copies differ while the operation ends.
  std::uint64_t* tags = nullptr;
  /// Maximum number of cells that a rank sends to a peer in a step. The lane has this number of slots for each peer,
  /// for even and for odd tags, in each region. The same on every rank.
  int cells = 0;
  bool starts_early = false;  ///< the GPU can start a kernel before the previous one has ended
  const std::uint32_t* aborted = nullptr;  ///< flag in host memory: not 0 if the communicator is aborted
};

/// Returns the size of a lane's slots at one rank: even and odd tags, each region, each source rank, each cell.
constexpr std::size_t lane_bytes(int ranks, int cells) {
  return std::size_t{2} * kRegions * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(cells) * kCellBytes;
}

/// Loads the kernels for this number of ranks onto the current device. Otherwise CUDA loads a kernel at its first
/// launch, which can block until the GPU is idle. The GPU may run a kernel that waits for a peer's kernel. If the
/// blocked thread is the one that launches the peer's kernel afterwards, neither ever ends.
void preload_kernels(int ranks);

/// Queues an operation on a stream of the current device.
cudaError_t launch(const Operation& operation, const Lane& lane, cudaStream_t stream);

/// Queues a kernel that ends when all copies in `lane.tags` have reached `tag`, or when the communicator is aborted.
/// The stream then waits for operations on other streams.
cudaError_t launch_wait(const Lane& lane, std::uint64_t tag, cudaStream_t stream);

}  // namespace busbw::fastpath
