// Kernels that only move data: all-gather, all-to-all and broadcast.
#include "fastpath/device/kernel.cuh"
#include "fastpath/device/kernel_launchers.hpp"

namespace busbw::fastpath {

cudaError_t launch_moving_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  return launch_work(MovingWorks{}, operation, lane, stream);
}

void preload_moving_kernels(int ranks) { preload_works(MovingWorks{}, ranks); }

}  // namespace busbw::fastpath
