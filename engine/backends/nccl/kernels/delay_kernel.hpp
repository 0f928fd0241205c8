#pragma once
// A delay: a kernel of one thread that lasts as long as a computation of the replayed job.
#include <cuda_runtime_api.h>

namespace busbw {

/// Later work in `stream` starts `ns` nanoseconds after the earlier work has ended.
cudaError_t launch_delay(unsigned long long ns, cudaStream_t stream);

}  // namespace busbw
