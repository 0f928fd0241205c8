#include "verify/host_data.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace busbw {
namespace {

/// Calls visit(values, offset, elements) for each run of positions that are consecutive in the tile. `offset` counts
/// from `first`.
template <class Visit>
void for_each_run(const DataStream& stream, std::uint64_t first, std::size_t elements, const Visit& visit) {
  for (std::size_t offset = 0; offset < elements;) {
    const std::uint64_t position = first + offset;
    const std::size_t run =
        std::min<std::size_t>(elements - offset, kBlockElements - static_cast<std::size_t>(position % kBlockElements));
    visit(stream.at(position), offset, run);
    offset += run;
  }
}

/// Compares run by run, and element by element in runs that differ. The compile-time size speeds up counting if the
/// whole result is wrong.
template <std::size_t size>
void compare(const std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements,
             std::uint64_t index_base, Mismatches& mismatches) {
  for_each_run(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t run) {
    const std::byte* const got = at + offset * size;
    if (std::memcmp(got, values, run * size) == 0) return;
    for (std::size_t i = 0; i < run; ++i) {
      const std::byte* const expected = values + i * size;
      if (std::memcmp(expected, got + i * size, size) != 0)
        mismatches.add(index_base + offset + i, expected, got + i * size, size);
    }
  });
}

}  // namespace

void fill_host(std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements) {
  const std::size_t size = stream.element_bytes;
  for_each_run(stream, first, elements, [&](const std::byte* values, std::size_t offset, std::size_t run) {
    std::memcpy(at + offset * size, values, run * size);
  });
}

void compare_host(const std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements,
                  std::uint64_t index_base, Mismatches& mismatches) {
  switch (stream.element_bytes) {
    case 1: return compare<1>(at, stream, first, elements, index_base, mismatches);
    case 2: return compare<2>(at, stream, first, elements, index_base, mismatches);
    case 4: return compare<4>(at, stream, first, elements, index_base, mismatches);
    case 8: return compare<8>(at, stream, first, elements, index_base, mismatches);
    default: throw std::logic_error("compare_host: elements have 1, 2, 4 or 8 bytes");
  }
}

}  // namespace busbw
