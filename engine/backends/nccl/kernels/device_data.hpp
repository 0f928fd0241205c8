#pragma once
// Fills and compares GPU memory with data streams, by kernels at memory speed. verify/block_start.hpp defines the
// streams for host and GPU.
#include <cuda_runtime_api.h>

#include "backends/nccl/kernels/device_range.hpp"

namespace busbw {

/// Writes this range of the data stream to its memory, in order with the other work of the CUDA stream `stream`.
cudaError_t launch_fill(const DeviceRange& range, cudaStream_t stream);

/// Adds the number of differing words to `*differing` on the device. 0 means that all bytes are equal. A word is 16
/// aligned bytes. The bytes before the first aligned word together count as one word, and so do those after the last
/// one. If the memory is aligned to elements, the number is at most that of wrong elements.
cudaError_t launch_compare(const DeviceRange& range, unsigned long long* differing, cudaStream_t stream);

}  // namespace busbw
