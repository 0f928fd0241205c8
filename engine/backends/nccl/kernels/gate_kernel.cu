// Gate kernel: one thread that polls host memory until the host opens the gate.
#include "backends/nccl/kernels/gate_kernel.hpp"

namespace busbw {
namespace {

// Limit on polls, so that a stopped host process does not leave the GPU spinning. One poll of host memory takes 0.5 to
// 2 us, over PCIe or a chip-to-chip link to the CPU, so all polls take about 20 to 90 s.
constexpr unsigned kMaxPolls = 45'000'000;

__global__ void wait_until_open(volatile GateWords* words, unsigned long long closing) {
  for (unsigned poll = 0; poll < kMaxPolls; ++poll)
    if (words->opened >= closing) return;
  words->expired = closing;
  __threadfence_system();
}

}  // namespace

cudaError_t launch_gate(GateWords* words, unsigned long long closing, cudaStream_t stream) {
  wait_until_open<<<1, 1, 0, stream>>>(words, closing);
  return cudaGetLastError();
}

}  // namespace busbw
