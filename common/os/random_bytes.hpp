#pragma once
// Random bytes for tokens, nonces and secrets of connections.
#include <array>
#include <cstddef>
#include <span>

namespace busbw {

/// Fills `bytes` with cryptographically secure random data. Throws EnvironmentError if the system provides none.
void fill_randomly(std::span<std::byte> bytes);

/// Returns `kBytes` bytes from `fill_randomly`.
template <std::size_t kBytes>
std::array<std::byte, kBytes> random_bytes() {
  std::array<std::byte, kBytes> bytes;
  fill_randomly(bytes);
  return bytes;
}

}  // namespace busbw
