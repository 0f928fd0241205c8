#pragma once
// Copies within a GPU's memory by a kernel. A graph that contains only kernels launches without delay, even behind a
// kernel that waits. A graph that also needs the GPU's copy engines blocks the launching thread.
#include <cuda_runtime_api.h>

#include <cstddef>

namespace busbw {

/// Copies `bytes` bytes of any alignment. The ranges must not overlap.
cudaError_t launch_copy(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream);

}  // namespace busbw
