#pragma once
// Memory use of one rank's device by purpose, as -M reports it.
#include <cstdint>
#include <optional>

namespace busbw {

/// Bytes by purpose. Unknown values are missing. Other programs may allocate and free memory at the same time, so that
/// a value can be negative.
struct MemoryUse {
  std::optional<std::int64_t> context_bytes;     // taken by the device's runtime at its start
  std::optional<std::int64_t> library_bytes;     // taken by joining the communicator
  std::optional<std::int64_t> buffer_bytes;      // the rank's buffers with their registration
  std::optional<std::int64_t> collective_bytes;  // taken by the collectives, after the buffers
};

}  // namespace busbw
