// Writes and compares data streams block by block with memcpy and memcmp.
#include "verify/host_data.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace busbw {
namespace {

/// Calls visit(values, offset, block_elements) for each block of the range. The range may begin and end within a block,
/// so the first and the last block may be partial. `values` points into the tile; `offset` counts elements from
/// `first`.
template <class Visit>
void for_each_block(const DataStream& stream, std::uint64_t first, std::size_t elements, const Visit& visit) {
  for (std::size_t offset = 0; offset < elements;) {
    const std::uint64_t position = first + offset;
    const std::size_t block_elements =
        std::min<std::size_t>(elements - offset, kBlockElements - static_cast<std::size_t>(position % kBlockElements));
    visit(stream.at(position), offset, block_elements);
    offset += block_elements;
  }
}

/// Compares block by block, and element by element in blocks that differ. The element size `size` is known at
/// compile time, which speeds up counting if the whole result is wrong.
template <std::size_t size>
void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
             std::uint64_t index_base, Mismatches& mismatches) {
  for_each_block(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t block_elements) {
    const std::byte* const got = memory + offset * size;
    if (std::memcmp(got, values, block_elements * size) == 0) return;
    for (std::size_t i = 0; i < block_elements; ++i) {
      const std::byte* const expected = values + i * size;
      if (std::memcmp(expected, got + i * size, size) != 0)
        mismatches.add(index_base + offset + i, expected, got + i * size, size);
    }
  });
}

}  // namespace

void fill_host(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) {
  const std::size_t size = stream.element_bytes;
  for_each_block(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t block_elements) {
    std::memcpy(memory + offset * size, values, block_elements * size);
  });
}

void compare_host(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
                  std::uint64_t index_base, Mismatches& mismatches) {
  switch (stream.element_bytes) {
    case 1: return compare<1>(memory, stream, first, elements, index_base, mismatches);
    case 2: return compare<2>(memory, stream, first, elements, index_base, mismatches);
    case 4: return compare<4>(memory, stream, first, elements, index_base, mismatches);
    case 8: return compare<8>(memory, stream, first, elements, index_base, mismatches);
    default: throw std::logic_error("compare_host: elements have 1, 2, 4 or 8 bytes");
  }
}

}  // namespace busbw
