// Kernels that reduce float: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_float32_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing_kernel<Float32>(operation, lane, stream);
}

void preload_float32_kernels(int ranks) { preload_reducing_kernels<Float32>(ranks); }

}  // namespace busbw::fastpath
