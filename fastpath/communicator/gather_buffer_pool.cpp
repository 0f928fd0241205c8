// Allocates and reuses gather buffers in pinned host memory.
#include "fastpath/communicator/gather_buffer_pool.hpp"

#include <memory>

#include "fastpath/device/cuda_check.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

std::span<RankCapabilities> GatherBufferPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_buffers_.empty()) {
    const std::span<RankCapabilities> buffer = free_buffers_.back();
    free_buffers_.pop_back();
    return buffer;
  }
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(RankCapabilities) * kMaxRanks, cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating memory for the setup");
  const std::span<RankCapabilities> buffer(static_cast<RankCapabilities*>(memory), kMaxRanks);
  std::uninitialized_value_construct(buffer.begin(), buffer.end());
  return buffer;
}

void GatherBufferPool::put_back(std::span<RankCapabilities> buffer) {
  const std::lock_guard lock(mutex_);
  free_buffers_.push_back(buffer);
}

}  // namespace busbw::fastpath
