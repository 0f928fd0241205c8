#pragma once
// Collectives and methods of the fast path. Includes no headers, because kernels include this file.

namespace busbw::fastpath {

/// Maximum number of ranks of a communicator with a fast path.
inline constexpr int kMaxRanks = 8;

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, alltoall };
/// Methods of a call: `nccl` delegates it to the real NCCL, and the others are the schedules of schedule.hpp. `direct`
/// needs buffers that peers can access.
enum class Method { nccl, exchange, two_shot, direct };

}  // namespace busbw::fastpath
