#pragma once
// Fills and compares GPU memory with data streams, by kernels at memory speed. verify/block_start.hpp defines the
// streams for host and GPU.
#include <cuda_runtime_api.h>

#include "backends/nccl/kernels/device_range.hpp"

namespace busbw {

/// Writes the range of the stream to memory.
cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream);

/// Adds the number of differing words to `*differing` on the device. Words have 16 bytes; the bytes before and after
/// the aligned words count as a word each. 0 means that all bytes are equal. The number is at most that of wrong
/// elements if the memory is aligned to elements.
cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream);

}  // namespace busbw
