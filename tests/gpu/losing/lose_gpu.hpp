#pragma once
#include <cuda_runtime_api.h>

/// Ends this program's context on the GPU of the stream, as an error that cannot be corrected does: every later call fails.
cudaError_t lose_gpu(cudaStream_t stream);
