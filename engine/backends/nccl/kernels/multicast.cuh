#pragma once
// Loads that return the sum over all ranks, and stores that write to all ranks. The NVLink switch adds and distributes.
// Addresses are multicast addresses, which stand for the same place in every rank's buffer. GPUs before compute
// capability 9.0 have no such instructions; code compiled for them traps.
#include <cuda_runtime_api.h>

namespace busbw {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Returns the sum of the values that all ranks have at this place.
__device__ inline float load_sum_of_all(const float* address) {
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(address) : "memory");
  return sum;
}
__device__ inline double load_sum_of_all(const double* address) {
  double sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];" : "=d"(sum) : "l"(address) : "memory");
  return sum;
}
__device__ inline float4 load_sum_of_all(const float4* address) {
  float4 sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w)
               : "l"(address)
               : "memory");
  return sum;
}
/// Writes the value to this place in every rank's buffer.
__device__ inline void store_to_all(float* address, float value) {
  asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
__device__ inline void store_to_all(double* address, double value) {
  asm volatile("multimem.st.relaxed.sys.global.f64 [%0], %1;" ::"l"(address), "d"(value) : "memory");
}
__device__ inline void store_to_all(float4* address, float4 value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

#else

template <class Number>
__device__ Number load_sum_of_all(const Number*) {
  __trap();
  return {};
}
template <class Number>
__device__ void store_to_all(Number*, Number) {
  __trap();
}

#endif

}  // namespace busbw
