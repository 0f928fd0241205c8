#include "backends/nccl/device_data.hpp"
#include "verify/block_start.hpp"

namespace busbw {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kLanes = 32;  // of a warp
constexpr unsigned kWordBytes = 16;
/// Words that a warp takes before it goes on elsewhere: several for each lane, of which most lie in one block.
constexpr unsigned kStripWords = 8 * kLanes;

/// Where a byte of the range is found.
struct Place {
  unsigned offset;  // bytes into the tile
  unsigned left;    // bytes from it on that are consecutive in the tile
};

/// Where a block starts takes longer to work out than to copy a word of it: one thread's last block is remembered.
class Places {
 public:
  __device__ explicit Places(const DeviceRange& range) : range_(range) {
    while (1u << shift_ < range.element_bytes) ++shift_;
  }

  /// Of the byte of that number, counted from the begin of the range.
  __device__ Place of(std::uint64_t byte) {
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
  unsigned shift_ = 0;  // bits of a byte's number within its element
  std::uint64_t block_ = ~std::uint64_t{0};
  unsigned start_ = 0;
};

/// 16 bytes of the tile from any offset on, out of two whole words.
__device__ uint4 tile_word(const unsigned char* tile, unsigned offset) {
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

/// What belongs into the word that begins with that byte; it may end in the block after.
__device__ uint4 expected_word(const DeviceRange& range, Places& places, std::uint64_t byte) {
  const Place here = places.of(byte);
  if (here.left >= kWordBytes) return tile_word(range.tile, here.offset);
  const Place next = places.of(byte + here.left);
  unsigned parts[4] = {};
#pragma unroll
  for (unsigned i = 0; i < kWordBytes; ++i) {
    const unsigned offset = i < here.left ? here.offset + i : next.offset + i - here.left;
    parts[i / 4] |= static_cast<unsigned>(range.tile[offset]) << (i % 4 * 8);
  }
  return make_uint4(parts[0], parts[1], parts[2], parts[3]);
}

/// Calls word(at, expected) for each whole aligned word of the range, and byte(at, expected) for what lies before the first
/// and after the last.
template <class Byte, class Word>
__device__ void over_range(const DeviceRange& range, const Byte& byte, const Word& word) {
  const std::size_t bytes = range.elements * range.element_bytes;
  const std::size_t to_aligned = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(range.at)) % kWordBytes;
  const std::size_t head = to_aligned < bytes ? to_aligned : bytes;
  const std::size_t words = (bytes - head) / kWordBytes;
  Places places(range);
  if (blockIdx.x == 0 && threadIdx.x < 2 * kWordBytes) {
    const bool before = threadIdx.x < kWordBytes;
    const std::size_t number = before ? threadIdx.x : head + words * kWordBytes + threadIdx.x - kWordBytes;
    if (number < (before ? head : bytes)) byte(range.at + number, range.tile[places.of(number).offset]);
  }
  uint4* const first = reinterpret_cast<uint4*>(range.at + head);
  // Counted from where all that a warp writes at once is whole lines of memory; what lies before the range is not taken.
  const std::size_t before = reinterpret_cast<std::uintptr_t>(first) / kWordBytes % kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const std::size_t warp = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const std::size_t warps = std::size_t{gridDim.x} * kThreads / kLanes;
  for (std::size_t strip = warp * kStripWords; strip < before + words; strip += warps * kStripWords)
    for (std::size_t i = strip + lane; i < strip + kStripWords; i += kLanes) {
      if (i < before || i >= before + words) continue;
      word(first + (i - before), expected_word(range, places, head + (i - before) * kWordBytes));
    }
}

__global__ void __launch_bounds__(kThreads) fill(DeviceRange range) {
  over_range(
      range, [](unsigned char* at, unsigned char expected) { *at = expected; },
      [](uint4* at, uint4 expected) { *at = expected; });
}

__global__ void __launch_bounds__(kThreads) compare(DeviceRange range, unsigned long long* differing) {
  unsigned found = 0;
  over_range(
      range, [&](const unsigned char* at, unsigned char expected) { found += *at != expected; },
      [&](const uint4* at, uint4 expected) {
        const uint4 got = *at;
        found += ((got.x ^ expected.x) | (got.y ^ expected.y) | (got.z ^ expected.z) | (got.w ^ expected.w)) != 0;
      });
  if (found) atomicAdd(differing, static_cast<unsigned long long>(found));
}

unsigned blocks_for(const DeviceRange& range) {
  constexpr std::size_t kMostBlocks = 132 * 16;  // a few for each multiprocessor of any GPU
  constexpr std::size_t kBlockBytes = std::size_t{kStripWords} * kWordBytes * (kThreads / kLanes);
  const std::size_t blocks = range.elements * range.element_bytes / kBlockBytes + 1;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace

cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream) {
  if (range.elements == 0) return cudaSuccess;
  fill<<<blocks_for(range), kThreads, 0, stream>>>(range);
  return cudaGetLastError();
}

cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream) {
  if (range.elements == 0) return cudaSuccess;
  compare<<<blocks_for(range), kThreads, 0, stream>>>(range, differing);
  return cudaGetLastError();
}

}  // namespace busbw
