#pragma once
// What the fast path knows how to do, and how. Without standard headers: kernels read this too.

namespace busbw::fastpath {

/// Ranks that a communicator with a fast path has at most.
inline constexpr int kMaxRanks = 8;

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, alltoall };
/// The schedules (schedule.hpp), and `handed_over`: the real library's own way. `direct` takes buffers that peers
/// reach.
enum class Method { nccl, exchange, two_shot, direct };

}  // namespace busbw::fastpath
