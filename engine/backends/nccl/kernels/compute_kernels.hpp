#pragma once
// Kernels that stand for a job's computation: a delay, which uses one thread, and a matrix product, which keeps all
// multiprocessors busy.
#include <cuda_runtime_api.h>

namespace busbw {

/// Later work in `stream` starts `ns` nanoseconds after the earlier work has ended, or, if `overlapped`, after the
/// previous delay with the same `end_ns`. `end_ns`: device memory for the end of the last delay, by the global timer.
cudaError_t launch_delay(unsigned long long ns, unsigned long long* end_ns, bool overlapped, cudaStream_t stream);

/// Multiplies the matrix of `order` x `order` floats, row by row in device memory, with itself, without tensor cores.
cudaError_t launch_square_matrix(float* product, const float* matrix, unsigned order, cudaStream_t stream);

}  // namespace busbw
