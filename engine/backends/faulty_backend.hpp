#pragma once
// Adds the faults of --fault to any backend. It needs only a function that copies between the host and the ranks'
// memory.
#include <cstddef>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "backends/faults.hpp"

namespace busbw {

/// Copies between host memory and a rank's memory in either direction, and returns when done. The rank's own thread
/// calls it.
using MemoryCopy = std::function<void(std::byte* to, const std::byte* from, std::size_t bytes)>;

/// Wraps `inner` with faults, or returns `inner` itself if `faults` is empty. A result is corrupted at the rank's next
/// `synchronize`, when its operation has finished. `connect` throws UsageError if a fault names a rank that does not
/// exist.
std::unique_ptr<Backend> inject_faults(std::unique_ptr<Backend> inner, Faults faults, MemoryCopy copy);

}  // namespace busbw
