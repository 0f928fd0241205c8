#pragma once
// Defines tiles and blocks, the parts of all data streams. A tile is a table of element values. A stream is a sequence
// of blocks. Each block is a contiguous part of the tile, and this file computes its pseudo-random start. Host code and
// GPU kernels share this arithmetic.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Elements in a tile. A tile of 8-byte elements is 128 KiB and fits in a core's L2 cache.
inline constexpr std::size_t kTileElements = 16384;
/// Elements in a block. Within a block, the stream's values are consecutive in the tile.
inline constexpr std::size_t kBlockElements = 2048;

/// Bijective hash: every bit of the result depends on every bit of `x`. Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014, with David Stafford's constants ("Mix13").
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Maps the upper 32 bits of `random` to a number in 0 .. bound-1. `bound` is at most 2^32.
constexpr std::uint64_t map_below(std::uint64_t random, std::uint64_t bound) { return ((random >> 32) * bound) >> 32; }

/// Start in the tile, in elements, of block number `block` of the stream with this seed: from 0 to kTileElements -
/// kBlockElements. The seed is hashed before it is added: otherwise streams with successive seeds would differ only by
/// a shift of one block.
constexpr std::size_t block_start(std::uint64_t seed, std::uint64_t block) {
  return static_cast<std::size_t>(map_below(mix_bits(mix_bits(seed) + block), kTileElements - kBlockElements + 1));
}

}  // namespace busbw
