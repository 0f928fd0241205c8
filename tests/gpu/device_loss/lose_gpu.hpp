#pragma once
#include <cuda_runtime_api.h>

/// Has a GPU ready to be lost: loading code waits for all that runs there, which may wait for more to come.
cudaError_t prepare_to_lose(int device);

/// Ends this program's context on the GPU of the stream, as an error that cannot be corrected does: every later call fails.
cudaError_t lose_gpu(int device, cudaStream_t stream);
