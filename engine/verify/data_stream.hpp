#pragma once
// A reproducible stream of elements that is cheap to write and to compare (docs/explanation/correctness.md). A tile is
// a table of element values. Each block of the stream is a contiguous part of the tile that begins at a pseudo-random
// place. Backends fill send buffers with streams and compare results with them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "verify/block_start.hpp"

namespace busbw {

/// The raw bytes of kTileElements elements.
using Tile = std::shared_ptr<const std::vector<std::byte>>;

/// An endless sequence of elements. Two streams of one tile with different seeds differ in nearly every block.
struct DataStream {
  Tile tile;
  std::size_t element_bytes = 1;
  std::uint64_t seed = 0;

  /// Pointer to the element at `position`. The rest of the element's block follows.
  const std::byte* at(std::uint64_t position) const {
    const std::size_t element = block_start(seed, position / kBlockElements) + position % kBlockElements;
    return tile->data() + element * element_bytes;
  }
};

}  // namespace busbw
