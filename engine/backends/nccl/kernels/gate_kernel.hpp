#pragma once
// A kernel that holds back what comes after it in its stream.
#include <cuda_runtime_api.h>

namespace busbw {

/// Memory of the host that the device sees, too. Counts of closings.
struct GateWords {
  unsigned long long opened;   // written by the host: the gate's closings up to this one are over
  unsigned long long expired;  // written by the device: this one was not over in time
};

/// Whatever follows in `stream` waits until `words->opened` is `closing` or more; some tens of seconds at most, then
/// `words->expired` is set to it. `words`: as the current device sees them.
cudaError_t launch_gate(GateWords* words, unsigned long long closing, cudaStream_t stream);

}  // namespace busbw
