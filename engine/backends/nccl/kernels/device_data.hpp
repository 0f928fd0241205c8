#pragma once
// Streams in a GPU's memory: written and compared by kernels, at the speed of that memory, by the definition that
// verify/block_start.hpp gives to the host too.
#include <cuda_runtime_api.h>

#include "backends/nccl/kernels/device_range.hpp"

namespace busbw {

/// Writes the range.
cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream);

/// Adds to `*differing` how many pieces of up to 16 bytes differ from what belongs there; 0 means that none does.
cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream);

}  // namespace busbw
