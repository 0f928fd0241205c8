#pragma once
// Writes and compares data streams in host-accessible memory, at memory speed. The host backend uses these functions
// for all data, the GPU backend to find the wrong elements.
#include <cstddef>
#include <cstdint>

#include "verify/data_stream.hpp"
#include "verify/mismatch.hpp"

namespace busbw {

/// Writes `elements` elements of `stream` to `memory`, beginning with position `first` of the stream.
void fill_host(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements);

/// Compares `elements` elements at `memory` with the stream, bit by bit, and adds the differences to `mismatches`. The
/// index of a mismatch is `index_base` plus its offset from `memory` in elements.
void compare_host(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
                  std::uint64_t index_base, Mismatches& mismatches);

}  // namespace busbw
