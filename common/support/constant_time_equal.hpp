#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

namespace busbw {

/// Compares bytes in constant time, so that timing does not reveal the common prefix. Lengths must also be equal.
inline bool constant_time_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
  std::byte differences{one.size() != other.size()};
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) differences |= one[i] ^ other[i];
  return differences == std::byte{};
}

}  // namespace busbw
