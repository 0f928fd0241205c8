// Kernels of the check for BUSBW_FASTPATH=verify. They compare element by element, in the simplest way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fastpath/verify/verifier.hpp"

namespace busbw::fastpath {
namespace {

// Each thread loops over elements, so these numbers only affect the speed.
constexpr int kThreads = 256;
constexpr int kBlocks = 64;

template <class Type>
__device__ float widen(Type value) {
  return static_cast<float>(value);
}

template <class Type>
__device__ Type round_to(float value) {
  return static_cast<Type>(value);
}

__device__ float combine(Redop redop, float a, float b) {
  switch (redop) {
    case Redop::sum:
    case Redop::avg: return a + b;
    case Redop::prod: return a * b;
    case Redop::min: return fminf(a, b);
    case Redop::max: return fmaxf(a, b);
  }
  return a;
}

__device__ void record_mismatch(MismatchCounts* mismatches, std::size_t element) {
  if (atomicAdd_system(&mismatches->wrong, 1ull) == 0) mismatches->first_found_plus_1 = element + 1;
}

/// Computes each element of this rank's result from all ranks' inputs, and compares its bits with the fast path's. The
/// fast path also reduces in float and in rank order, so correct results have equal bits. `Bits` is an unsigned type of
/// the size of `Type`.
template <class Type, class Bits>
__global__ void check_reduced(const CheckArguments arguments, MismatchCounts* mismatches) {
  const CollectiveCall& call = arguments.call;
  const std::size_t count = call.bytes / sizeof(Type);
  const std::size_t stride = arguments.stride / sizeof(Type);
  const auto* inputs = reinterpret_cast<const Type*>(arguments.inputs);
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float value = widen(inputs[i]);
    for (int r = 1; r < arguments.ranks; ++r)
      value = combine(call.redop, value, widen(inputs[static_cast<std::size_t>(r) * stride + i]));
    if (call.redop == Redop::avg) value *= 1.0f / static_cast<float>(arguments.ranks);
    const Type result = round_to<Type>(value);
    if (reinterpret_cast<const Bits*>(call.receive)[i] != *reinterpret_cast<const Bits*>(&result))
      record_mismatch(mismatches, i);
  }
}

/// Compares the result's bytes from each source rank with the input of that rank.
__global__ void check_moved(const CheckArguments arguments, MismatchCounts* mismatches) {
  const std::size_t bytes = arguments.call.bytes;
  const auto* received = static_cast<const char*>(arguments.call.receive);
  for (int source = 0; source < arguments.source_ranks; ++source)
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x)
      if (received[static_cast<std::size_t>(source) * bytes + i] !=
          arguments.inputs[static_cast<std::size_t>(source) * arguments.stride + i])
        record_mismatch(mismatches, static_cast<std::size_t>(source) * bytes + i);
}

}  // namespace

void preload_check_kernels() {
  cudaFuncAttributes attributes;  // not used: reading the attributes of a kernel loads the kernel
  cudaFuncGetAttributes(&attributes, check_reduced<__half, unsigned short>);
  cudaFuncGetAttributes(&attributes, check_reduced<__nv_bfloat16, unsigned short>);
  cudaFuncGetAttributes(&attributes, check_reduced<float, unsigned int>);
  cudaFuncGetAttributes(&attributes, check_moved);
}

cudaError_t launch_check(const CheckArguments& arguments, MismatchCounts* mismatches, cudaStream_t stream) {
  cudaGetLastError();  // clears the error of an earlier call
  const ElementType element = arguments.call.element;
  if (!arguments.reduces)
    check_moved<<<kBlocks, kThreads, 0, stream>>>(arguments, mismatches);
  else if (element == ElementType::float16)
    check_reduced<__half, unsigned short><<<kBlocks, kThreads, 0, stream>>>(arguments, mismatches);
  else if (element == ElementType::bfloat16)
    check_reduced<__nv_bfloat16, unsigned short><<<kBlocks, kThreads, 0, stream>>>(arguments, mismatches);
  else
    check_reduced<float, unsigned int><<<kBlocks, kThreads, 0, stream>>>(arguments, mismatches);
  return cudaGetLastError();
}

}  // namespace busbw::fastpath
