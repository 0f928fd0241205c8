// The delay kernel is one thread that polls the global timer. The matrix product has tiles in shared memory, and each
// of its threads computes one element.
#include "backends/nccl/kernels/compute_kernels.hpp"

namespace busbw {
namespace {

constexpr unsigned kTile = 32;  // rows and columns of a tile; a block has one thread for each of its elements

__device__ unsigned long long global_timer_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void wait_for_time(unsigned long long ns, unsigned long long* end_ns, bool overlapped) {
  const unsigned long long start = overlapped ? *end_ns : global_timer_ns();
  const unsigned long long end = start + ns;
  while (global_timer_ns() < end) {
  }
  *end_ns = end;
}

__global__ void __launch_bounds__(kTile* kTile) square_matrix(float* product, const float* matrix, unsigned order) {
  __shared__ float left[kTile][kTile];
  __shared__ float right[kTile][kTile];
  const unsigned row = blockIdx.y * kTile + threadIdx.y;
  const unsigned column = blockIdx.x * kTile + threadIdx.x;
  const auto element = [&](unsigned at_row, unsigned at_column) {
    return at_row < order && at_column < order ? matrix[static_cast<std::size_t>(at_row) * order + at_column] : 0.0F;
  };
  float sum = 0;
  for (unsigned first = 0; first < order; first += kTile) {
    left[threadIdx.y][threadIdx.x] = element(row, first + threadIdx.x);
    right[threadIdx.y][threadIdx.x] = element(first + threadIdx.y, column);
    __syncthreads();
    for (unsigned inner = 0; inner < kTile; ++inner) sum += left[threadIdx.y][inner] * right[inner][threadIdx.x];
    __syncthreads();
  }
  if (row < order && column < order) product[static_cast<std::size_t>(row) * order + column] = sum;
}

}  // namespace

cudaError_t launch_delay(unsigned long long ns, unsigned long long* end_ns, bool overlapped, cudaStream_t stream) {
  wait_for_time<<<1, 1, 0, stream>>>(ns, end_ns, overlapped);
  return cudaGetLastError();
}

cudaError_t launch_square_matrix(float* product, const float* matrix, unsigned order, cudaStream_t stream) {
  const unsigned tiles = (order + kTile - 1) / kTile;
  square_matrix<<<dim3(tiles, tiles), dim3(kTile, kTile), 0, stream>>>(product, matrix, order);
  return cudaGetLastError();
}

}  // namespace busbw
