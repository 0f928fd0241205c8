// Kernels that reduce half: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_float16(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing<Float16>(operation, lane, stream);
}

void preload_float16(int ranks) { preload_reducing<Float16>(ranks); }

}  // namespace busbw::fastpath
