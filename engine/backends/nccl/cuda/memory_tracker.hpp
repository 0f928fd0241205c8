#pragma once
// GPU memory used by each start step of a rank (-M): the decrease of the free memory that CUDA reports. The memory of
// CUDA's context is NVML's figure for this process before the first step.
#include <cstdint>
#include <optional>

#include "backends/backend.hpp"
#include "backends/nccl/cuda/cuda.hpp"
#include "common/libraries/nvml.hpp"

namespace busbw {

/// Memory account of one rank. Create it before the rank allocates on the current device. Call a `record_` function
/// after each step.
class MemoryTracker {
 public:
  /// A tracker that is not `enabled` queries and reports nothing.
  MemoryTracker(bool enabled, const std::optional<NvmlGpu>& gpu)
      : enabled_(enabled), free_after_last_step_(free_bytes()) {
    if (enabled_ && gpu) use_.context_bytes = gpu->process_bytes();
  }

  void record_buffer_step() { add_step(use_.buffer_bytes); }
  void record_library_step() { add_step(use_.library_bytes); }
  /// Memory use of all steps. Allocations since the last step count as those of collectives.
  std::optional<MemoryUse> use() const {
    if (!enabled_) return std::nullopt;
    MemoryUse use = use_;
    if (const auto free_now = free_bytes(); free_now && free_after_last_step_)
      use.collective_bytes = *free_after_last_step_ - *free_now;
    return use;
  }

 private:
  std::optional<std::int64_t> free_bytes() const {
    const auto bytes = enabled_ ? free_memory_bytes() : std::nullopt;
    return bytes ? std::optional(static_cast<std::int64_t>(*bytes)) : std::nullopt;
  }
  void add_step(std::optional<std::int64_t>& bytes) {
    const auto free_now = free_bytes();
    if (free_now && free_after_last_step_) bytes = bytes.value_or(0) + *free_after_last_step_ - *free_now;
    free_after_last_step_ = free_now;
  }

  bool enabled_;
  std::optional<std::int64_t> free_after_last_step_;  // in bytes; nothing if unknown or not enabled
  MemoryUse use_;
};

}  // namespace busbw
