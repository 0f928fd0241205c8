#include "lose_gpu.hpp"

namespace {

__global__ void trapped() { __trap(); }

}  // namespace

cudaError_t load_lose_gpu() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, trapped);
}

cudaError_t lose_gpu(cudaStream_t stream) {
  trapped<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}
