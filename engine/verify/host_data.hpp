#pragma once
// Writes and compares data streams in host-accessible memory, at memory speed.
#include <cstddef>
#include <cstdint>

#include "verify/data_stream.hpp"
#include "verify/mismatch.hpp"

namespace busbw {

/// Writes `elements` elements of `stream` to `at`, beginning with position `first` of the stream.
void fill_host(std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements);

/// Compares bit by bit. A mismatch's index is `index_base` plus its offset from `at` in elements.
void compare_host(const std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements,
                  std::uint64_t index_base, Mismatches& mismatches);

}  // namespace busbw
