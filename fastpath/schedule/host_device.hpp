#pragma once
// Functions that the GPU's kernels and the host share.

#if defined(__CUDACC__)
#define BUSBW_HOST_DEVICE __host__ __device__ __forceinline__
/// For what is rarely taken: a call is cheaper than its code in every place.
#define BUSBW_HOST_DEVICE_CALLED static __host__ __device__ __noinline__
/// Arrays indexed by such a loop's counter stay in registers.
#define BUSBW_UNROLL _Pragma("unroll")
#else
#define BUSBW_HOST_DEVICE inline
#define BUSBW_HOST_DEVICE_CALLED inline
#define BUSBW_UNROLL
#endif
