#pragma once
// Locates the expected bytes of a range of a data stream, by 16-byte words and for many threads. The kernels of
// device_data.cu use it. Tests run it thread by thread on the host, with replacements for CUDA's functions.
#include "backends/nccl/kernels/device_range.hpp"
#include "verify/block_start.hpp"

namespace busbw {

inline constexpr unsigned kLanes = 32;  // per warp
inline constexpr unsigned kWordBytes = 16;
/// Words that a lane takes before its warp moves on. Most of them lie in one block.
inline constexpr unsigned kWordsPerLane = 4;
inline constexpr unsigned kStripWords = kWordsPerLane * kLanes;

/// Position of a byte of the range in the tile.
struct TilePosition {
  unsigned offset;            // bytes from the start of the tile
  unsigned contiguous_bytes;  // bytes from there on that are consecutive in the tile
};

/// Finds tile positions. Keeps the thread's last block, because computing the start of a block takes longer than
/// copying a word.
class TileLocator {
 public:
  __device__ explicit TileLocator(const DeviceRange& range) : range_(range) {
    while (1u << shift_ < range.element_bytes) ++shift_;
  }

  /// Position of byte number `byte` of the range.
  __device__ TilePosition locate(std::uint64_t byte) {
    const std::uint64_t position = range_.first + (byte >> shift_);
    const unsigned in_element = static_cast<unsigned>(byte) & (range_.element_bytes - 1);
    const unsigned in_block = static_cast<unsigned>(position % kBlockElements);
    const std::uint64_t block = position / kBlockElements;
    if (block != block_) {
      block_ = block;
      start_ = static_cast<unsigned>(block_start(range_.seed, block));
    }
    const unsigned left_in_block = static_cast<unsigned>(kBlockElements) - in_block;
    return {((start_ + in_block) << shift_) + in_element, (left_in_block << shift_) - in_element};
  }

 private:
  const DeviceRange& range_;
  unsigned shift_ = 0;  // log2 of the element size
  std::uint64_t block_ = ~std::uint64_t{0};
  unsigned start_ = 0;
};

/// Reads 16 bytes of the tile from any offset, out of two aligned words.
__device__ inline uint4 tile_word(const unsigned char* tile, unsigned offset) {
  const uint4* const words = reinterpret_cast<const uint4*>(tile) + offset / kWordBytes;
  const uint4 low = words[0], high = words[1];
  const bool by_two = offset & 8, by_one = offset & 4;
  const unsigned a0 = by_two ? low.z : low.x, a1 = by_two ? low.w : low.y, a2 = by_two ? high.x : low.z,
                 a3 = by_two ? high.y : low.w, a4 = by_two ? high.z : high.x, a5 = by_two ? high.w : high.y;
  const unsigned b0 = by_one ? a1 : a0, b1 = by_one ? a2 : a1, b2 = by_one ? a3 : a2, b3 = by_one ? a4 : a3,
                 b4 = by_one ? a5 : a4;
  const unsigned bits = (offset & 3) * 8;
  return make_uint4(__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits), __funnelshift_r(b2, b3, bits),
                    __funnelshift_r(b3, b4, bits));
}

/// Expected word that begins with byte number `byte`. It may extend into the next block.
__device__ inline uint4 expected_word(const DeviceRange& range, TileLocator& locator, std::uint64_t byte) {
  const TilePosition position = locator.locate(byte);
  if (position.contiguous_bytes >= kWordBytes) return tile_word(range.tile, position.offset);
  const TilePosition next = locator.locate(byte + position.contiguous_bytes);
  unsigned parts[4] = {};
  for (unsigned i = 0; i < kWordBytes; ++i) {
    const unsigned offset =
        i < position.contiguous_bytes ? position.offset + i : next.offset + i - position.contiguous_bytes;
    parts[i / 4] |= static_cast<unsigned>(range.tile[offset]) << (i % 4 * 8);
  }
  return make_uint4(parts[0], parts[1], parts[2], parts[3]);
}

/// Calls word(at, read(at), expected) for each aligned word of the range, and byte(at, expected) for the bytes before
/// and after the aligned words. Reads several words before it processes the first one.
template <class Byte, class Read, class Word>
__device__ void over_range(const DeviceRange& range, std::size_t thread, std::size_t threads, const Byte& byte,
                           const Read& read, const Word& word) {
  const std::size_t bytes = range.elements * range.element_bytes;
  const std::size_t to_aligned = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(range.at)) % kWordBytes;
  const std::size_t head = to_aligned < bytes ? to_aligned : bytes;
  const std::size_t words = (bytes - head) / kWordBytes;
  TileLocator locator(range);
  if (thread < 2 * kWordBytes) {
    const bool at_begin = thread < kWordBytes;
    const std::size_t number = at_begin ? thread : head + words * kWordBytes + thread - kWordBytes;
    if (number < (at_begin ? head : bytes)) byte(range.at + number, range.tile[locator.locate(number).offset]);
  }
  uint4* const first = reinterpret_cast<uint4*>(range.at + head);
  // Strips start at a memory line, so that a warp writes whole lines. Words before the range are skipped.
  const std::size_t before = reinterpret_cast<std::uintptr_t>(first) / kWordBytes % kLanes;
  const std::size_t lane = thread % kLanes;
  for (std::size_t strip = thread / kLanes * kStripWords; strip < before + words;
       strip += threads / kLanes * kStripWords) {
    // Wraps around to a large number for words before the range.
    const std::size_t first_of_lane = strip + lane - before;
    uint4 found[kWordsPerLane];
    for (unsigned i = 0; i < kWordsPerLane; ++i)
      if (first_of_lane + i * kLanes < words) found[i] = read(first + (first_of_lane + i * kLanes));
    for (unsigned i = 0; i < kWordsPerLane; ++i) {
      const std::size_t number = first_of_lane + i * kLanes;
      if (number < words) word(first + number, found[i], expected_word(range, locator, head + number * kWordBytes));
    }
  }
}

/// Writes one thread's words of the range.
__device__ inline void fill_range(const DeviceRange& range, std::size_t thread, std::size_t threads) {
  over_range(
      range, thread, threads, [](unsigned char* at, unsigned char expected) { *at = expected; },
      [](const uint4*) { return uint4{}; }, [](uint4* at, uint4, uint4 expected) { *at = expected; });
}

/// Counts the words of one thread that differ from the expected ones.
__device__ inline unsigned count_differing(const DeviceRange& range, std::size_t thread, std::size_t threads) {
  unsigned found = 0;
  over_range(
      range, thread, threads, [&](const unsigned char* at, unsigned char expected) { found += *at != expected; },
      [](const uint4* at) { return *at; },
      [&](const uint4*, uint4 got, uint4 expected) {
        found += ((got.x ^ expected.x) | (got.y ^ expected.y) | (got.z ^ expected.z) | (got.w ^ expected.w)) != 0;
      });
  return found;
}

}  // namespace busbw
