#pragma once
// Memory in which ranks' facts are gathered when a communicator is made.
#include <mutex>
#include <span>
#include <vector>

#include "fastpath/peers/rank_capabilities.hpp"

namespace busbw::fastpath {

/// Of the host, which NCCL's kernels reach too: a program that makes a communicator late may have left none of its
/// GPU's. And kept for the next meeting, as CUDA waits for all that runs on a GPU when such memory is freed. For any
/// number of threads.
class GatherBufferPool {
 public:
  /// Room for the facts of as many ranks as a clique may have. Throws EnvironmentError.
  std::span<RankCapabilities> take();
  /// When nothing is written there any more.
  void put_back(std::span<RankCapabilities> place);

 private:
  std::mutex mutex_;
  std::vector<std::span<RankCapabilities>> kept_;
};

}  // namespace busbw::fastpath
