#pragma once
// NCCL 2.28 tells only kernels where a window lies at each rank.
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace busbw::fastpath {

/// Queues a kernel that writes the address of every rank's buffer in a window into `places`, memory of the device. For the
/// NCCL of the version whose header this is built with, as others may keep it in another form.
cudaError_t launch_lookup(ncclWindow_t window, int ranks, char** places, cudaStream_t stream);

}  // namespace busbw::fastpath
