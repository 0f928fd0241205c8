#pragma once
// Collectives and methods of the fast path. Includes only a generated list, because kernels include this file.

namespace busbw::fastpath {

/// Maximum number of ranks of a communicator with a fast path.
inline constexpr int kMaxRanks = 8;

/// The collectives of src/busbw/collectives.toml with fast methods.
enum class Collective {
#define BUSBW_COLLECTIVE(...)
#define BUSBW_FAST_COLLECTIVE(name, ...) name,
#include "common/values/collectives.inc"
};
/// Methods of a call: `nccl` delegates it to the real NCCL, and the others are the schedules of schedule.hpp. `direct`
/// needs buffers that peers can access.
enum class Method { nccl, exchange, two_shot, direct };

}  // namespace busbw::fastpath
