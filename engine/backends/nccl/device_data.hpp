#pragma once
// Streams in a GPU's memory: written and compared by kernels, at the speed of that memory, by the definition that
// verify/block_start.hpp gives to the host too.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes that a tile's copy on the device needs beyond its own: kernels read whole words.
constexpr std::size_t kTilePaddingBytes = 16;

/// A range of a stream and where it lies, all in the memory of one device.
struct DeviceRange {
  unsigned char* at;          // any alignment
  const unsigned char* tile;  // kTileElements elements and kTilePaddingBytes
  std::uint64_t seed;
  std::uint64_t first;  // position in the stream
  std::size_t elements;
  unsigned element_bytes;  // 1, 2, 4 or 8
};

/// Writes the range.
cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream);

/// Adds to `*differing` how many pieces of up to 16 bytes differ from what belongs there; 0 means that none does.
cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream);

}  // namespace busbw
