#include "backends/nccl/kernels/device_data.hpp"
#include "backends/nccl/kernels/tile_words.cuh"

namespace busbw {
namespace {

constexpr unsigned kThreads = 256;

__device__ std::size_t thread() { return std::size_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::size_t threads() { return std::size_t{gridDim.x} * kThreads; }

__global__ void __launch_bounds__(kThreads) fill(DeviceRange range) { fill_range(range, thread(), threads()); }

__global__ void __launch_bounds__(kThreads) compare(DeviceRange range, unsigned long long* differing) {
  const unsigned found = count_differing(range, thread(), threads());
  if (found) atomicAdd(differing, static_cast<unsigned long long>(found));
}

unsigned blocks_for(const DeviceRange& range) {
  constexpr std::size_t kMaxBlocks = 132 * 16;  // a few for each multiprocessor of any GPU
  constexpr std::size_t kBlockBytes = std::size_t{kStripWords} * kWordBytes * (kThreads / kLanes);
  const std::size_t blocks = range.elements * range.element_bytes / kBlockBytes + 1;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
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
