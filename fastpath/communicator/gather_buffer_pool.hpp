#pragma once
// Pool of buffers in which NCCL gathers the ranks' capabilities when a communicator is created (clique_setup.hpp).
#include <mutex>
#include <span>
#include <vector>

#include "fastpath/peers/rank_capabilities.hpp"

namespace busbw::fastpath {

/// Buffers in host memory, which NCCL's kernels can access too. A program that creates a communicator late may have no
/// GPU memory left. Buffers are reused and never freed, because freeing such memory waits for all work on a GPU.
/// Thread-safe.
class GatherBufferPool {
 public:
  /// Takes a buffer for kMaxRanks ranks from the pool, or allocates one. Throws EnvironmentError.
  std::span<RankCapabilities> take();
  /// Returns a buffer to the pool. NCCL must have finished writing into it.
  void put_back(std::span<RankCapabilities> buffer);

 private:
  std::mutex mutex_;
  std::vector<std::span<RankCapabilities>> free_buffers_;
};

}  // namespace busbw::fastpath
