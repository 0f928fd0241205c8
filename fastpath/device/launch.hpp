#pragma once
// Starts the kernel of an operation. The only door from the host to the kernels.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {

/// A rank's place for one sequence of operations: its slots and everybody else's, and how far it has come.
struct Lane {
  char* slots_of[kMaxRanks] = {};      ///< the lane's slots at each rank, as this rank's GPU sees them
  std::uint64_t* tags =
      nullptr;       ///< a word for each of kMaxBlocks blocks: the last tag used; all alike between kernels
  int cells = 0;                       ///< of a rank that there are slots for, the same at every rank
  bool starts_early = false;           ///< the GPU can give a kernel its place before the one before it has ended
  const std::uint32_t* aborted = nullptr;  ///< memory of the host: not 0 once the communicator is aborted
};

/// Bytes of a lane's slots at one rank: two tags in turns, each region, each source, each cell.
constexpr std::size_t lane_bytes(int ranks, int cells) {
  return std::size_t{2} * kRegions * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(cells) * kCellBytes;
}

/// Loads the kernels for so many ranks onto the current device. CUDA loads a kernel when it is first used and may wait
/// for the GPU then, which waits for a peer's kernel, whose launch may be this thread's next one.
void preload(int ranks);

/// Queues an operation on a stream of the current device.
cudaError_t launch(const Operation& operation, const Lane& lane, cudaStream_t stream);

/// Queues a kernel that ends when all blocks' words have reached `tag`: an order between two streams.
cudaError_t launch_wait(const Lane& lane, std::uint64_t tag, cudaStream_t stream);

}  // namespace busbw::fastpath
