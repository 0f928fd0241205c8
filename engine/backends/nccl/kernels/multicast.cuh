#pragma once
// Loads that add the elements of all members of a multicast object, and stores to all members. Only GPUs of compute
// capability 9.0 and later support them; code compiled for older GPUs traps.
#include <cuda_runtime_api.h>

namespace busbw {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ inline float load_sum_of_all(const float* at) {
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(at) : "memory");
  return sum;
}
__device__ inline double load_sum_of_all(const double* at) {
  double sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];" : "=d"(sum) : "l"(at) : "memory");
  return sum;
}
__device__ inline float4 load_sum_of_all(const float4* at) {
  float4 sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w)
               : "l"(at)
               : "memory");
  return sum;
}
__device__ inline void store_to_all(float* at, float value) {
  asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(at), "f"(value) : "memory");
}
__device__ inline void store_to_all(double* at, double value) {
  asm volatile("multimem.st.relaxed.sys.global.f64 [%0], %1;" ::"l"(at), "d"(value) : "memory");
}
__device__ inline void store_to_all(float4* at, float4 value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
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
