#pragma once
#include <cuda_runtime_api.h>

/// Has the current GPU ready for it: loading code waits for all that runs there, which may wait for more to come.
cudaError_t load_lose_gpu();

/// Ends this program's context on the GPU of the stream, as an error that cannot be corrected does: every later call fails.
cudaError_t lose_gpu(cudaStream_t stream);
