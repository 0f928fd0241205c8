#pragma once
// A range of a data stream in GPU memory. Free of CUDA headers, so that tests without CUDA can use it.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes of padding after a tile on the device, because kernels read whole words of 16 bytes.
constexpr std::size_t kTilePaddingBytes = 16;

/// A range of a data stream (verify/data_stream.hpp) and the memory to fill or to compare, all on one device.
struct DeviceRange {
  unsigned char* memory;      // any alignment
  /// The stream's tile: kTileElements elements and kTilePaddingBytes, aligned to 16 bytes.
  const unsigned char* tile;
  std::uint64_t seed;  // selects the part of the tile that each block of the stream contains
  std::uint64_t first;  // position of the range in the stream, in elements
  std::size_t elements;
  unsigned element_bytes;  // 1, 2, 4 or 8
};

}  // namespace busbw
