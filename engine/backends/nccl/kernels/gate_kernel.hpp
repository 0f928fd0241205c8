#pragma once
// A gate: a kernel that holds back all later work in its stream until the host opens it. All ranks can then issue their
// operations before any of them starts.
#include <cuda_runtime_api.h>

namespace busbw {

/// Host memory that the device can access. A gate is closed many times, and the closings are numbered from 1.
struct GateWords {
  unsigned long long opened;   // written by the host: closings up to this number are open
  unsigned long long expired;  // written by the device: number of a closing that exceeded the time limit; 0: none
};

/// Later work in `stream` waits until `words->opened` is at least `closing`. After some tens of seconds the kernel sets
/// `words->expired` to `closing` and ends. `words`: address for the current device.
cudaError_t launch_gate(GateWords* words, unsigned long long closing, cudaStream_t stream);

}  // namespace busbw
