#pragma once
// A range of a data stream in GPU memory. Free of CUDA headers, so that tests without CUDA can use it.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes of padding after a tile on the device, because kernels read whole words.
constexpr std::size_t kTilePaddingBytes = 16;

/// A range of a data stream and its memory, all on one device.
struct DeviceRange {
  unsigned char* at;          // any alignment
  const unsigned char* tile;  // kTileElements elements and kTilePaddingBytes, aligned to 16 bytes
  std::uint64_t seed;
  std::uint64_t first;  // position in the stream
  std::size_t elements;
  unsigned element_bytes;  // 1, 2, 4 or 8
};

}  // namespace busbw
