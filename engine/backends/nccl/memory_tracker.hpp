#pragma once
// GPU memory used by each start step of a rank (-M), from CUDA's figure of free memory. The use by CUDA itself is
// NVML's figure for this process before the first step.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "backends/backend.hpp"
#include "backends/nccl/nvml.hpp"

namespace busbw {

/// Memory account of one rank. Create it before the rank allocates on the current device, and report each step to it.
class MemoryTracker {
 public:
  /// A tracker that is not `enabled` queries and reports nothing.
  MemoryTracker(bool enabled, const std::optional<NvmlGpu>& gpu) : enabled_(enabled), free_(free_bytes()) {
    if (enabled_ && gpu) use_.context_bytes = gpu->process_bytes();
  }

  void buffers_made() { add_step(use_.buffer_bytes); }
  void library_joined() { add_step(use_.library_bytes); }
  /// Memory use of all steps, including the allocations since the last one.
  std::optional<MemoryUse> use() const {
    if (!enabled_) return std::nullopt;
    MemoryUse use = use_;
    if (const auto now = free_bytes(); now && free_) use.collective_bytes = *free_ - *now;
    return use;
  }

 private:
  std::optional<std::int64_t> free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    if (!enabled_ || cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return static_cast<std::int64_t>(free);
  }
  void add_step(std::optional<std::int64_t>& bytes) {
    const auto now = free_bytes();
    if (now && free_) bytes = bytes.value_or(0) + *free_ - *now;
    free_ = now;
  }

  bool enabled_;
  std::optional<std::int64_t> free_;
  MemoryUse use_;
};

}  // namespace busbw
