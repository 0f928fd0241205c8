// Kernels that reduce bfloat16: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_bfloat16_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing_kernel<Bfloat16>(operation, lane, stream);
}

void preload_bfloat16_kernels(int ranks) { preload_reducing_kernels<Bfloat16>(ranks); }

}  // namespace busbw::fastpath
