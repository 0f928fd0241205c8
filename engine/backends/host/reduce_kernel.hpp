#pragma once
// Element-wise reduction of several arrays into several others: the arithmetic of the host backend.
#include <cstddef>
#include <span>

#include "common/values/types.hpp"

namespace busbw {

/// How results are stored.
enum class WriteMode {
  cached,    // through the caches: for results that fit there, or whose place was read just before
  streamed,  // past the caches where the processor can: saves reading what is about to be overwritten
};

/// Reduces the elements `first` to `first + count` of all sources, source i being rank i's data, and writes the result
/// to the same elements of all destinations. A destination may be a source; arrays overlap in no other way. In rank
/// order, so that the result is the same wherever it is computed:
/// integers modulo 2^bits; float in float; double in double; half, bfloat16 and the 8-bit formats in float, rounded
/// once. `avg` divides the sum once: integers truncate towards zero, which is the floor for sums that are not negative.
/// `mulsum` multiplies rank i's data by mulsum_scalar(i) first.
void reduce_elements(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                     std::size_t first, std::size_t count, Dtype dtype, Redop redop, WriteMode store);

/// Divides the sums at `data` by `ranks`, as `avg` does it above: for sums that were made elsewhere.
void average_elements(std::byte* data, std::size_t count, Dtype dtype, int ranks);

/// Writes the elements of `from`, rank `rank`'s data, as `mulsum` sums them: each times mulsum_scalar(rank). `to` may
/// be `from`.
void scale_elements(std::byte* to, const std::byte* from, std::size_t count, Dtype dtype, int rank);

}  // namespace busbw
