#pragma once
// Element-wise reduction of several arrays into several others: the arithmetic of the host backend.
#include <cstddef>
#include <span>

#include "common/values/types.hpp"

namespace busbw {

/// How results are written to memory.
enum class WriteMode {
  cached,    // through the caches: for results that fit there, or that overwrite cache lines read just before
  streamed,  // past the caches, if the processor can: the overwritten cache lines are not read first
};

/// Reduces elements `first` to `first + count` of all sources into the same elements of all destinations. Source i is
/// rank i's data. A destination may be a source; otherwise arrays must not overlap.
/// The reduction runs in rank order, so that every rank computes the same bits:
/// - Integers are reduced modulo 2^bits, float in float, double in double.
/// - Half, bfloat16 and the 8-bit formats are reduced in float and rounded once.
/// - `avg` divides the sum once. Integers truncate towards zero, which is the floor of a nonnegative sum.
/// - `mulsum` first multiplies rank i's data by mulsum_scalar(i).
void reduce_elements(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                     std::size_t first, std::size_t count, Dtype dtype, Redop redop, WriteMode write_mode);

}  // namespace busbw
