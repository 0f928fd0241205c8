#pragma once
// Result of comparing a buffer with its expected data: the number of wrong elements, and the bits of the first few.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbw {

/// Bytes of one element, in memory order.
using ElementBits = std::array<std::byte, 8>;

/// One wrong element.
struct Mismatch {
  std::uint64_t index = 0;  // index in the compared range, plus the `index_base` of the comparison
  ElementBits expected{};
  ElementBits got{};
};

/// Counts all mismatches and keeps the first ones.
struct Mismatches {
  static constexpr std::size_t kKept = 4;  // maximum size of `first`
  std::uint64_t count = 0;
  std::vector<Mismatch> first;
  /// Elements that were wrong when the GPU compared them, but right when the host read them. There may be more, because
  /// the GPU counts words of several elements. `count` includes this number.
  std::uint64_t vanished = 0;
  std::uint64_t vanished_range_start = 0;  // start of the first compared range with vanished elements

  /// Adds a wrong element. Both pointers have `element_bytes` bytes, at most 8.
  void add(std::uint64_t index, const std::byte* expected, const std::byte* got, std::size_t element_bytes);
  /// Adds `elements` vanished elements of the compared range that begins at `first_index`.
  void add_vanished(std::uint64_t first_index, std::uint64_t elements);
};

}  // namespace busbw
