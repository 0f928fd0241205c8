#pragma once
// -M: what each step of a rank's start took of the GPU's memory, by CUDA's figure of what is free; what CUDA itself
// took, by NVML's of what this process has before the first step.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "backends/backend.hpp"
#include "backends/nccl/nvml.hpp"

namespace busbw {

/// Opened before a rank takes anything of its GPU, the current device; each step is told when it is done.
class MemoryTracker {
 public:
  /// A book that is not `kept` asks nothing and tells nothing.
  MemoryTracker(bool kept, const std::optional<NvmlGpu>& gpu) : kept_(kept), free_(free_bytes()) {
    if (kept_ && gpu) use_.context_bytes = gpu->used_here_bytes();
  }

  void buffers_made() { add_step(use_.buffer_bytes); }
  void library_joined() { add_step(use_.library_bytes); }
  /// With what was taken since the last step.
  std::optional<MemoryUse> use() const {
    if (!kept_) return std::nullopt;
    MemoryUse use = use_;
    if (const auto now = free_bytes(); now && free_) use.collective_bytes = *free_ - *now;
    return use;
  }

 private:
  std::optional<std::int64_t> free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    if (!kept_ || cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return static_cast<std::int64_t>(free);
  }
  void add_step(std::optional<std::int64_t>& share) {
    const auto now = free_bytes();
    if (now && free_) share = share.value_or(0) + *free_ - *now;
    free_ = now;
  }

  bool kept_;
  std::optional<std::int64_t> free_;
  MemoryUse use_;
};

}  // namespace busbw
