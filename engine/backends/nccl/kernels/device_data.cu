// Kernels that fill and compare GPU memory with data streams; tile_words.cuh has the work of one thread.
#include "backends/nccl/kernels/device_data.hpp"
#include "backends/nccl/kernels/tile_words.cuh"

namespace busbw {
namespace {

constexpr unsigned kThreads = 256;  // per block
constexpr unsigned kWarpsPerBlock = kThreads / kLanes;

__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * kThreads; }

__global__ void __launch_bounds__(kThreads) fill(DeviceRange range) {
  fill_range(range, thread_index(), thread_count());
}

__global__ void __launch_bounds__(kThreads) compare(DeviceRange range, unsigned long long* differing) {
  const unsigned thread_differing = count_differing(range, thread_index(), thread_count());
  if (thread_differing) atomicAdd(differing, static_cast<unsigned long long>(thread_differing));
}

/// Number of thread blocks with which each warp gets about one strip (tile_words.cuh). In a range that needs more than
/// kMaxBlocks, each warp gets several strips.
unsigned block_count(const DeviceRange& range) {
  constexpr std::size_t kMaxBlocks = 132 * 16;  // 16 for each of an H100's 132 multiprocessors
  constexpr std::size_t kStripBytes = std::size_t{kStripWords} * kWordBytes;
  constexpr std::size_t kBlockBytes = kStripBytes * kWarpsPerBlock;
  const std::size_t blocks = range.elements * range.element_bytes / kBlockBytes + 1;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

}  // namespace

cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream) {
  if (range.elements == 0) return cudaSuccess;
  fill<<<block_count(range), kThreads, 0, stream>>>(range);
  return cudaGetLastError();
}

cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream) {
  if (range.elements == 0) return cudaSuccess;
  compare<<<block_count(range), kThreads, 0, stream>>>(range, differing);
  return cudaGetLastError();
}

}  // namespace busbw
