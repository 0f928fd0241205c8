#pragma once
// Writes or compares a range of a data stream in GPU memory (kernels of device_data.cu), in words of 16 bytes. A tile
// is the table with the values of a stream; verify/block_start.hpp defines tiles and blocks. Tests run this code thread
// by thread on the host, with replacements for CUDA's functions.
#include "backends/nccl/kernels/device_range.hpp"
#include "verify/block_start.hpp"

namespace busbw {

inline constexpr unsigned kLanes = 32;  // per warp
inline constexpr unsigned kWordBytes = 16;
/// Words that a lane reads before it processes the first one. Most of them lie in one block of the stream.
inline constexpr unsigned kWordsPerLane = 4;
/// A strip: consecutive words that one warp processes at a time.
inline constexpr unsigned kStripWords = kWordsPerLane * kLanes;

/// Position in the tile of a byte of the range.
struct TilePosition {
  unsigned offset;            // bytes from the start of the tile
  unsigned contiguous_bytes;  // bytes of the range that follow without a gap in the tile, this byte included
};

/// Finds tile positions. Caches the start of the thread's last block, because computing it takes longer than copying a
/// word.
class TileLocator {
 public:
  __device__ explicit TileLocator(const DeviceRange& range) : range_(range) {
    while (1u << element_shift_ < range.element_bytes) ++element_shift_;
  }

  /// Position of byte number `byte` of the range.
  __device__ TilePosition locate(std::uint64_t byte) {
    const std::uint64_t position = range_.first + (byte >> element_shift_);
    const unsigned byte_in_element = static_cast<unsigned>(byte) & (range_.element_bytes - 1);
    const unsigned element_in_block = static_cast<unsigned>(position % kBlockElements);
    const std::uint64_t block = position / kBlockElements;
    if (block != cached_block_) {
      cached_block_ = block;
      cached_start_ = static_cast<unsigned>(block_start(range_.seed, block));
    }
    const unsigned elements_left_in_block = static_cast<unsigned>(kBlockElements) - element_in_block;
    return {((cached_start_ + element_in_block) << element_shift_) + byte_in_element,
            (elements_left_in_block << element_shift_) - byte_in_element};
  }

 private:
  const DeviceRange& range_;
  unsigned element_shift_ = 0;  // log2 of the element size
  std::uint64_t cached_block_ = ~std::uint64_t{0};  // none
  unsigned cached_start_ = 0;  // in elements
};

/// Reads 16 bytes of the tile from any offset, out of two aligned words of four 4-byte parts each. The first selection
/// drops 0 or 2 parts (a0 to a5 remain), the second 0 or 1 (b0 to b4 remain). A funnel shift drops 0 to 3 bytes.
/// Offset 22, for example, is 16 + 4 + 2: it begins with word 1 and drops 0 parts, then 1 part, then 2 bytes. No branch
/// depends on the offset, so all lanes of a warp run the same instructions.
__device__ inline uint4 tile_word(const unsigned char* tile, unsigned offset) {
  const uint4* const words = reinterpret_cast<const uint4*>(tile) + offset / kWordBytes;
  const uint4 low = words[0];
  const uint4 high = words[1];
  const bool skips_two_parts = offset & 8;
  const unsigned a0 = skips_two_parts ? low.z : low.x;
  const unsigned a1 = skips_two_parts ? low.w : low.y;
  const unsigned a2 = skips_two_parts ? high.x : low.z;
  const unsigned a3 = skips_two_parts ? high.y : low.w;
  const unsigned a4 = skips_two_parts ? high.z : high.x;
  const unsigned a5 = skips_two_parts ? high.w : high.y;
  const bool skips_one_part = offset & 4;
  const unsigned b0 = skips_one_part ? a1 : a0;
  const unsigned b1 = skips_one_part ? a2 : a1;
  const unsigned b2 = skips_one_part ? a3 : a2;
  const unsigned b3 = skips_one_part ? a4 : a3;
  const unsigned b4 = skips_one_part ? a5 : a4;
  const unsigned shift_bits = (offset & 3) * 8;
  return make_uint4(__funnelshift_r(b0, b1, shift_bits), __funnelshift_r(b1, b2, shift_bits),
                    __funnelshift_r(b2, b3, shift_bits), __funnelshift_r(b3, b4, shift_bits));
}

/// True if the words differ in any bit.
__device__ inline bool differ(uint4 a, uint4 b) { return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0; }

/// Expected word that begins with byte number `byte` of the range. Its end may lie in the next block.
__device__ inline uint4 expected_word(const DeviceRange& range, TileLocator& locator, std::uint64_t byte) {
  const TilePosition position = locator.locate(byte);
  if (position.contiguous_bytes >= kWordBytes) return tile_word(range.tile, position.offset);
  const TilePosition next = locator.locate(byte + position.contiguous_bytes);
  unsigned parts[4] = {};
  for (unsigned i = 0; i < kWordBytes; ++i) {
    const bool is_in_first_block = i < position.contiguous_bytes;
    const unsigned offset = is_in_first_block ? position.offset + i : next.offset + (i - position.contiguous_bytes);
    parts[i / 4] |= static_cast<unsigned>(range.tile[offset]) << (i % 4 * 8);
  }
  return make_uint4(parts[0], parts[1], parts[2], parts[3]);
}

/// Visits the part of the range that belongs to thread number `thread` of `threads`. Calls
/// on_word(address, read_word(address), expected) for each aligned word. Calls on_edge(begin, end, expected_byte) for
/// the bytes before the aligned words, and for those after them. `begin` and `end` are numbers of bytes of the range,
/// and expected_byte(number) returns the value of one. Reads several words before it processes the first one.
template <class OnEdge, class ReadWord, class OnWord>
__device__ void visit_range(const DeviceRange& range, std::size_t thread, std::size_t threads, const OnEdge& on_edge,
                            const ReadWord& read_word, const OnWord& on_word) {
  const std::size_t bytes = range.elements * range.element_bytes;
  const std::size_t bytes_to_alignment =
      static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(range.memory)) % kWordBytes;
  const std::size_t head = bytes_to_alignment < bytes ? bytes_to_alignment : bytes;
  const std::size_t words = (bytes - head) / kWordBytes;
  TileLocator locator(range);
  const auto expected_byte = [&](std::size_t byte) { return range.tile[locator.locate(byte).offset]; };
  if (thread == 0 && head > 0) on_edge(std::size_t{0}, head, expected_byte);
  const std::size_t tail_begin = head + words * kWordBytes;
  if (thread == 1 && tail_begin < bytes) on_edge(tail_begin, bytes, expected_byte);
  uint4* const first = reinterpret_cast<uint4*>(range.memory + head);
  // Strips start at a 512-byte boundary, so that a warp writes whole cache lines. Words before the range are skipped.
  const std::size_t words_before = reinterpret_cast<std::uintptr_t>(first) / kWordBytes % kLanes;
  const std::size_t lane = thread % kLanes;
  for (std::size_t strip_start = thread / kLanes * kStripWords; strip_start < words_before + words;
       strip_start += threads / kLanes * kStripWords) {
    // For words before the range, this wraps around to a large number, which is not below `words`.
    const std::size_t first_of_lane = strip_start + lane - words_before;
    uint4 actual[kWordsPerLane];
    for (unsigned i = 0; i < kWordsPerLane; ++i)
      if (first_of_lane + i * kLanes < words) actual[i] = read_word(first + (first_of_lane + i * kLanes));
    for (unsigned i = 0; i < kWordsPerLane; ++i) {
      const std::size_t word = first_of_lane + i * kLanes;
      if (word < words) on_word(first + word, actual[i], expected_word(range, locator, head + word * kWordBytes));
    }
  }
}

/// Writes the expected bytes of one thread's part of the range. The memory is not read.
__device__ inline void fill_range(const DeviceRange& range, std::size_t thread, std::size_t threads) {
  visit_range(
      range, thread, threads,
      [&](std::size_t begin, std::size_t end, const auto& expected_byte) {
        for (std::size_t byte = begin; byte < end; ++byte) range.memory[byte] = expected_byte(byte);
      },
      [](const uint4*) { return uint4{}; }, [](uint4* address, uint4, uint4 expected) { *address = expected; });
}

/// Counts the aligned words and the edges (see `visit_range`) of one thread's part that differ from the expected ones.
/// No element lies in two of them if the memory is aligned to elements. So the sum over all threads is at most the
/// number of wrong elements.
__device__ inline unsigned count_differing(const DeviceRange& range, std::size_t thread, std::size_t threads) {
  unsigned differing = 0;
  visit_range(
      range, thread, threads,
      [&](std::size_t begin, std::size_t end, const auto& expected_byte) {
        bool differs = false;
        for (std::size_t byte = begin; byte < end; ++byte) differs |= range.memory[byte] != expected_byte(byte);
        differing += differs;
      },
      [](const uint4* address) { return *address; },
      [&](const uint4*, uint4 got, uint4 expected) { differing += differ(got, expected); });
  return differing;
}

}  // namespace busbw
