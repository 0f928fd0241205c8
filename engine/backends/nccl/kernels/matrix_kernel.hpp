#pragma once
// A load for a GPU's multiprocessors: a matrix product in plain arithmetic, without tensor cores.
#include <cuda_runtime_api.h>

namespace busbw {

/// Multiplies the matrix of `order` x `order` floats, row by row in device memory, with itself.
cudaError_t launch_square_matrix(float* product, const float* matrix, unsigned order, cudaStream_t stream);

}  // namespace busbw
