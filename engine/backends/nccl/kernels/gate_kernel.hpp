#pragma once
// A kernel that holds back all later work in its stream.
#include <cuda_runtime_api.h>

namespace busbw {

/// Host memory that the device can access. A gate numbers its closings.
struct GateWords {
  unsigned long long opened;   // written by the host: opens all closings up to this one
  unsigned long long expired;  // written by the device: this closing exceeded the time limit
};

/// Later work in `stream` waits until `words->opened` is at least `closing`. After some tens of seconds the kernel sets
/// `words->expired` to `closing` and ends. `words`: address for the current device.
cudaError_t launch_gate(GateWords* words, unsigned long long closing, cudaStream_t stream);

}  // namespace busbw
