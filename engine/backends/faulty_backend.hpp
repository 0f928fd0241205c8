#pragma once
// Makes --fault strike on a backend that knows nothing of faults: whatever its ranks' memory is, one way to copy out of
// it and back is enough.
#include <cstddef>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "backends/faults.hpp"

namespace busbw {

/// Copies between the host's memory and a rank's, either way; returns when it is done. Called by the rank's own thread.
using MemoryCopy = std::function<void(std::byte* to, const std::byte* from, std::size_t bytes)>;

/// `inner` with faults; `inner` itself where there are none. A result is spoilt when its operation has finished, which
/// is when the rank has waited for it. `connect` throws UsageError when a fault is of a rank that does not exist.
std::unique_ptr<Backend> inject_faults(std::unique_ptr<Backend> inner, Faults faults, MemoryCopy copy);

}  // namespace busbw
