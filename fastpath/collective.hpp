#pragma once
// What the fast path knows how to do, and how. Without standard headers: kernels read this too.

namespace busbw::fastpath {

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, alltoall };
/// `handed_over` is the real library's own way.
enum class Method { handed_over, exchange, two_shot };

}  // namespace busbw::fastpath
