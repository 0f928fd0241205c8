#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace busbw {

/// Bytes that nobody can guess, from the system. Throws EnvironmentError where it gives none.
void fill_randomly(std::span<std::byte> bytes);

template <std::size_t kBytes>
std::array<std::byte, kBytes> random_bytes() {
  std::array<std::byte, kBytes> bytes;
  fill_randomly(bytes);
  return bytes;
}

}  // namespace busbw
