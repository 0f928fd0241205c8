// Matrix product with tiles in shared memory. Each thread computes one element.
#include "backends/nccl/kernels/matrix_kernel.hpp"

namespace busbw {
namespace {

constexpr unsigned kTile = 32;  // order of a tile; a block has one thread for each of its elements

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

cudaError_t launch_square_matrix(float* product, const float* matrix, unsigned order, cudaStream_t stream) {
  const unsigned tiles = (order + kTile - 1) / kTile;
  square_matrix<<<dim3(tiles, tiles), dim3(kTile, kTile), 0, stream>>>(product, matrix, order);
  return cudaGetLastError();
}

}  // namespace busbw
