#pragma once
// A range of a data stream in GPU memory. Free of CUDA headers, so that tests without CUDA can use it.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes of padding after a tile on the device, because kernels read whole words of 16 bytes. A tile is a table of
/// element values.
constexpr std::size_t kTilePaddingBytes = 16;

/// A range of a data stream (verify/data_stream.hpp) and the memory to fill or to compare, all on one device. A stream
/// is a sequence of blocks, and each block is a part of one tile.
struct DeviceRange {
  unsigned char* memory;      // any alignment
  /// The stream's tile: kTileElements elements and kTilePaddingBytes, aligned to 16 bytes.
  const unsigned char* tile;
  std::uint64_t seed;  // determines the part of the tile of each block
  std::uint64_t first;  // position of the range in the stream, in elements
  std::size_t elements;
  unsigned element_bytes;  // 1, 2, 4 or 8
};

}  // namespace busbw
