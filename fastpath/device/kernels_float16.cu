// Kernels that reduce half: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_float16_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing_kernel<Float16>(operation, lane, stream);
}

void preload_float16_kernels(int ranks) { preload_reducing_kernels<Float16>(ranks); }

}  // namespace busbw::fastpath
