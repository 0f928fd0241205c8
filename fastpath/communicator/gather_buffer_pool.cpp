#include "fastpath/communicator/gather_buffer_pool.hpp"

#include <memory>

#include "fastpath/device/cuda_check.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

std::span<RankCapabilities> GatherBufferPool::take() {
  const std::lock_guard lock(mutex_);
  if (!kept_.empty()) {
    const std::span<RankCapabilities> place = kept_.back();
    kept_.pop_back();
    return place;
  }
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(RankCapabilities) * kMaxRanks, cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating memory to meet");
  const std::span<RankCapabilities> place(static_cast<RankCapabilities*>(memory), kMaxRanks);
  std::uninitialized_value_construct(place.begin(), place.end());
  return place;
}

void GatherBufferPool::put_back(std::span<RankCapabilities> place) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(place);
}

}  // namespace busbw::fastpath
