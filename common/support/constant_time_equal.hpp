#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

namespace busbw {

/// Compares in a time that does not tell how much is equal. Bytes of different lengths are not the same.
inline bool constant_time_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
  std::byte differences{one.size() != other.size()};
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) differences |= one[i] ^ other[i];
  return differences == std::byte{};
}

}  // namespace busbw
