#pragma once
// Macros for functions that GPU kernels and host code share.

#if defined(__CUDACC__)
#define BUSBW_HOST_DEVICE __host__ __device__ __forceinline__
/// For rarely used functions: a call is cheaper than inlining the code everywhere.
#define BUSBW_HOST_DEVICE_CALLED static __host__ __device__ __noinline__
/// Unrolls a loop, so that arrays that are indexed by its counter stay in registers.
#define BUSBW_UNROLL _Pragma("unroll")
#else
#define BUSBW_HOST_DEVICE inline
#define BUSBW_HOST_DEVICE_CALLED inline
#define BUSBW_UNROLL
#endif
