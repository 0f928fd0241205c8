#pragma once
// Copies within a GPU's memory, by a kernel: a graph of kernels alone is launched at once, also behind a kernel that
// waits, where one that needs the GPU's copy engines too holds up the thread that launches it.
#include <cuda_runtime_api.h>

#include <cstddef>

namespace busbw {

/// Copies `bytes` bytes, of any alignment, that do not overlap.
cudaError_t launch_copy(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream);

}  // namespace busbw
