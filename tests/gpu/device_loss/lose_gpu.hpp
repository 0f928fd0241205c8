#pragma once
#include <cuda_runtime_api.h>

/// Loads the kernel that loses a GPU. Loading waits for all work on the GPU, which may wait for later work.
cudaError_t prepare_to_lose(int device);

/// Destroys this program's context on the GPU of the stream, like an uncorrectable error: every later call fails.
cudaError_t lose_gpu(int device, cudaStream_t stream);
