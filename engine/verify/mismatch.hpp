#pragma once
// What a comparison found: how many elements differ, and the first few of them bit by bit.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbw {

/// The bytes of one element, in memory order.
using ElementBits = std::array<std::byte, 8>;

struct Mismatch {
  std::uint64_t index = 0;  // element, counted from the start of the compared range plus its `index_base`
  ElementBits expected{};
  ElementBits got{};
};

/// Counts all, keeps the first kKept.
struct Mismatches {
  static constexpr std::size_t kKept = 4;
  std::uint64_t count = 0;
  std::vector<Mismatch> first;
  /// Of them: wrong when a device compared, and right when the host looked which they are.
  std::uint64_t vanished = 0;
  std::uint64_t first_vanished = 0;  // the index of the first element of the range in which they were

  void add(std::uint64_t index, const std::byte* expected, const std::byte* got, std::size_t element_bytes);
  void add_vanished(std::uint64_t from, std::uint64_t elements);
};

}  // namespace busbw
