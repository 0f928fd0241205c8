#pragma once
// A delay: a kernel of one thread that lasts as long as a computation of the replayed job.
#include <cuda_runtime_api.h>

namespace busbw {

/// Later work in `stream` starts `ns` nanoseconds after the earlier work has ended, or, if `overlapped`, after the
/// previous delay with the same `end_ns`. That is device memory with the end of the last delay by the global timer.
cudaError_t launch_delay(unsigned long long ns, unsigned long long* end_ns, bool overlapped, cudaStream_t stream);

}  // namespace busbw
