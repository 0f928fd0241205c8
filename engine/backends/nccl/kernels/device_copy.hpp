#pragma once
// Copies within a GPU's memory by a kernel, for CUDA graphs (-G). A graph that contains only kernels launches without
// delay, even behind a kernel that waits. A graph that needs the GPU's copy engines would block the launching thread.
#include <cuda_runtime_api.h>

#include <cstddef>

namespace busbw {

/// Copies `bytes` bytes of any alignment. The ranges must not overlap.
cudaError_t launch_copy(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream);

}  // namespace busbw
