// Kernels that reduce float: all-reduce and reduce-scatter.
#include "fastpath/device/kernel_launchers.hpp"
#include "fastpath/device/reducing.cuh"

namespace busbw::fastpath {

cudaError_t launch_float32(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_reducing<Float32>(operation, lane, stream);
}

void preload_float32(int ranks) { preload_reducing<Float32>(ranks); }

}  // namespace busbw::fastpath
