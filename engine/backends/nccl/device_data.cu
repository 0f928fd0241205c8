#include "backends/nccl/device_data.hpp"
#include "verify/block_start.hpp"

namespace busbw {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWordBytes = 16;

/// A run of bytes that are consecutive in the tile.
struct Run {
  unsigned char* at;
  std::size_t tile_offset;
  unsigned bytes;
};

__device__ std::uint64_t run_count(const DeviceRange& range) {
  const std::uint64_t last = range.first + range.elements - 1;
  return last / kBlockElements - range.first / kBlockElements + 1;
}

__device__ Run run_of(const DeviceRange& range, std::uint64_t number) {
  const std::uint64_t block = range.first / kBlockElements + number;
  const std::uint64_t begin = number == 0 ? range.first : block * kBlockElements;
  const std::uint64_t block_end = (block + 1) * kBlockElements;
  const std::uint64_t range_end = range.first + range.elements;
  const std::uint64_t end = block_end < range_end ? block_end : range_end;
  const std::size_t in_tile = block_start(range.seed, block) + begin % kBlockElements;
  return {range.at + (begin - range.first) * range.element_bytes, in_tile * range.element_bytes,
          static_cast<unsigned>((end - begin) * range.element_bytes)};
}

/// 16 bytes of the tile from any offset on, by whole words.
__device__ uint4 tile_word(const unsigned char* tile, std::size_t offset) {
  const unsigned* const words = reinterpret_cast<const unsigned*>(tile + (offset & ~std::size_t{3}));
  const unsigned shift = static_cast<unsigned>(offset & 3) * 8;
  const unsigned w0 = words[0], w1 = words[1], w2 = words[2], w3 = words[3], w4 = words[4];
  return make_uint4(__funnelshift_r(w0, w1, shift), __funnelshift_r(w1, w2, shift), __funnelshift_r(w2, w3, shift),
                    __funnelshift_r(w3, w4, shift));
}

/// Calls bytes(at, offset) for what lies before the first and after the last whole aligned word of a run, and
/// word(at, offset) for each of those.
template <class Byte, class Word>
__device__ void over_run(const Run& run, const Byte& bytes, const Word& word) {
  const unsigned to_aligned = static_cast<unsigned>(-reinterpret_cast<std::uintptr_t>(run.at)) & (kWordBytes - 1);
  const unsigned head = to_aligned < run.bytes ? to_aligned : run.bytes;
  const unsigned words = (run.bytes - head) / kWordBytes;
  const unsigned tail = head + words * kWordBytes;
  for (unsigned i = threadIdx.x; i < head; i += kThreads) bytes(run.at + i, run.tile_offset + i);
  for (unsigned i = threadIdx.x; i < words; i += kThreads)
    word(reinterpret_cast<uint4*>(run.at + head) + i, run.tile_offset + head + i * kWordBytes);
  for (unsigned i = tail + threadIdx.x; i < run.bytes; i += kThreads) bytes(run.at + i, run.tile_offset + i);
}

__global__ void __launch_bounds__(kThreads) fill(DeviceRange range) {
  const std::uint64_t runs = run_count(range);
  for (std::uint64_t number = blockIdx.x; number < runs; number += gridDim.x)
    over_run(
        run_of(range, number), [&](unsigned char* at, std::size_t offset) { *at = range.tile[offset]; },
        [&](uint4* at, std::size_t offset) { *at = tile_word(range.tile, offset); });
}

__global__ void __launch_bounds__(kThreads) compare(DeviceRange range, unsigned long long* differing) {
  const std::uint64_t runs = run_count(range);
  unsigned found = 0;
  for (std::uint64_t number = blockIdx.x; number < runs; number += gridDim.x)
    over_run(
        run_of(range, number), [&](const unsigned char* at, std::size_t offset) { found += *at != range.tile[offset]; },
        [&](const uint4* at, std::size_t offset) {
          const uint4 got = *at;
          const uint4 expected = tile_word(range.tile, offset);
          found += ((got.x ^ expected.x) | (got.y ^ expected.y) | (got.z ^ expected.z) | (got.w ^ expected.w)) != 0;
        });
  if (found) atomicAdd(differing, static_cast<unsigned long long>(found));
}

unsigned blocks_for(const DeviceRange& range) {
  constexpr std::size_t kMostBlocks = 132 * 16;  // a few for each multiprocessor of any GPU
  const std::size_t runs = range.elements / kBlockElements + 2;
  return static_cast<unsigned>(runs < kMostBlocks ? runs : kMostBlocks);
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
