#pragma once
// Launchers of the kernels, by element type. kernels_*.cu define one each, so that the kernels compile in parallel. The
// preload functions load the same kernels onto the current device (launch.hpp).
#include "fastpath/device/launch.hpp"

namespace busbw::fastpath {

cudaError_t launch_float32(const Operation& operation, const Lane& lane, cudaStream_t stream);
cudaError_t launch_float16(const Operation& operation, const Lane& lane, cudaStream_t stream);
cudaError_t launch_bfloat16(const Operation& operation, const Lane& lane, cudaStream_t stream);
/// Launches the collectives that only move data.
cudaError_t launch_moving(const Operation& operation, const Lane& lane, cudaStream_t stream);

void preload_float32(int ranks);
void preload_float16(int ranks);
void preload_bfloat16(int ranks);
void preload_moving(int ranks);

}  // namespace busbw::fastpath
