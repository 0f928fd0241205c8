#pragma once
// Launchers of the kernels, by element type. kernels_*.cu define one each, so that the kernels compile in parallel. The
// preload functions load the same kernels onto the current device (launch.hpp).
#include "fastpath/device/launch.hpp"

namespace busbw::fastpath {

/// Queues the kernel of an operation that reduces this element type. Returns CUDA's error of the launch.
cudaError_t launch_float32_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream);
cudaError_t launch_float16_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream);
cudaError_t launch_bfloat16_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream);
/// Launches the collectives that only move data.
cudaError_t launch_moving_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream);

/// Loads the kernels for this number of ranks.
void preload_float32_kernels(int ranks);
void preload_float16_kernels(int ranks);
void preload_bfloat16_kernels(int ranks);
void preload_moving_kernels(int ranks);

}  // namespace busbw::fastpath
