// Delay kernel: one thread that polls the global timer.
#include "backends/nccl/kernels/delay_kernel.hpp"

namespace busbw {
namespace {

__device__ unsigned long long global_timer_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void wait_for_time(unsigned long long ns, unsigned long long* end_ns, bool overlapped) {
  const unsigned long long end = (overlapped ? *end_ns : global_timer_ns()) + ns;
  while (global_timer_ns() < end) {
  }
  *end_ns = end;
}

}  // namespace

cudaError_t launch_delay(unsigned long long ns, unsigned long long* end_ns, bool overlapped, cudaStream_t stream) {
  wait_for_time<<<1, 1, 0, stream>>>(ns, end_ns, overlapped);
  return cudaGetLastError();
}

}  // namespace busbw
