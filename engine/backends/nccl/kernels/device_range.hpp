#pragma once
// A range of a stream in a GPU's memory. No CUDA in here, so that tests without it can use what works on ranges.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes that a tile's copy on the device needs beyond its own: kernels read whole words.
constexpr std::size_t kTilePaddingBytes = 16;

/// A range of a stream and where it lies, all in the memory of one device.
struct DeviceRange {
  unsigned char* at;          // any alignment
  const unsigned char* tile;  // kTileElements elements and kTilePaddingBytes, aligned to 16 bytes
  std::uint64_t seed;
  std::uint64_t first;  // position in the stream
  std::size_t elements;
  unsigned element_bytes;  // 1, 2, 4 or 8
};

}  // namespace busbw
