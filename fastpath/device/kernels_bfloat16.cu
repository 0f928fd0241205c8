// Kernels that reduce bfloat16: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_bfloat16(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing<Bfloat16>(operation, lane, stream);
}

void preload_bfloat16(int ranks) { preload_reducing<Bfloat16>(ranks); }

}  // namespace busbw::fastpath
