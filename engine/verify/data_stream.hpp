#pragma once
// A reproducible stream of elements that is cheap to write and to compare. It consists of a tile of values and, for
// every block of positions, a pseudo-random start of the block's values in the tile (docs/checking.md).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "verify/block_start.hpp"

namespace busbw {

/// kTileElements elements, as bytes of the element type.
using Tile = std::shared_ptr<const std::vector<std::byte>>;

/// An endless sequence of elements. Two streams with different seeds differ in (almost) every block.
struct DataStream {
  Tile tile;
  std::size_t element_bytes = 1;
  std::uint64_t seed = 0;

  /// Bytes of the element at `position`.
  const std::byte* at(std::uint64_t position) const;
};

}  // namespace busbw
