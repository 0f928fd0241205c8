#pragma once
// Comparison of secrets, for the handshake of connections.
#include <algorithm>
#include <cstddef>
#include <span>

namespace busbw {

/// Compares bytes in a time that does not depend on their values, so that timing does not reveal a common prefix. The
/// time depends on the shorter length. False if the lengths differ.
inline bool constant_time_equal(std::span<const std::byte> left, std::span<const std::byte> right) {
  std::byte differences{left.size() != right.size()};
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) differences |= left[i] ^ right[i];
  return differences == std::byte{};
}

}  // namespace busbw
