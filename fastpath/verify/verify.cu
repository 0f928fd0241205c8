// Kernels of the check for BUSBW_FASTPATH=verify. They compare element by element, in the simplest way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fastpath/verify/verifier.hpp"

namespace busbw::fastpath {
namespace {

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

__device__ float combine(Redop reduce, float a, float b) {
  switch (reduce) {
    case Redop::sum:
    case Redop::avg: return a + b;
    case Redop::prod: return a * b;
    case Redop::min: return fminf(a, b);
    case Redop::max: return fmaxf(a, b);
  }
  return a;
}

__device__ void record_mismatch(CheckFindings* findings, std::size_t element) {
  if (atomicAdd_system(&findings->wrong, 1ull) == 0) findings->first = element + 1;
}

/// Computes the reduction of this rank's elements and compares them bit by bit. `Bits` is an unsigned type of the size
/// of `Type`.
template <class Type, class Bits>
__global__ void check_reduced(const CheckArguments expected, CheckFindings* findings) {
  const CollectiveCall& call = expected.call;
  const std::size_t count = call.bytes / sizeof(Type);
  const bool is_scattered = call.collective == Collective::reduce_scatter;
  const std::size_t input_count = is_scattered ? count * static_cast<std::size_t>(expected.ranks) : count;  // per rank
  const std::size_t begin = is_scattered ? count * static_cast<std::size_t>(expected.rank) : 0;
  const auto* inputs = reinterpret_cast<const Type*>(expected.inputs);
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float value = widen(inputs[begin + i]);
    for (int r = 1; r < expected.ranks; ++r)
      value = combine(call.reduce, value, widen(inputs[static_cast<std::size_t>(r) * input_count + begin + i]));
    if (call.reduce == Redop::avg) value *= 1.0f / static_cast<float>(expected.ranks);
    const Type result = round_to<Type>(value);
    if (reinterpret_cast<const Bits*>(call.receive)[i] != *reinterpret_cast<const Bits*>(&result))
      record_mismatch(findings, i);
  }
}

/// Compares `bytes` bytes from each source. `stride` is the distance between the inputs of two sources, in bytes.
__global__ void check_moved(const char* inputs, const char* received, std::size_t bytes, std::size_t stride,
                            int sources, CheckFindings* findings) {
  for (int source = 0; source < sources; ++source)
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x)
      if (received[static_cast<std::size_t>(source) * bytes + i] !=
          inputs[static_cast<std::size_t>(source) * stride + i])
        record_mismatch(findings, static_cast<std::size_t>(source) * bytes + i);
}

}  // namespace

void preload_checks() {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, check_reduced<__half, unsigned short>);
  cudaFuncGetAttributes(&attributes, check_reduced<__nv_bfloat16, unsigned short>);
  cudaFuncGetAttributes(&attributes, check_reduced<float, unsigned int>);
  cudaFuncGetAttributes(&attributes, check_moved);
}

cudaError_t launch_check(const CheckArguments& expected, CheckFindings* findings, cudaStream_t stream) {
  cudaGetLastError();  // clears the error of an earlier call
  const CollectiveCall& call = expected.call;
  const auto* received = static_cast<const char*>(call.receive);
  const auto ranks = static_cast<std::size_t>(expected.ranks);
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      if (call.element == ElementType::float16)
        check_reduced<__half, unsigned short><<<kBlocks, kThreads, 0, stream>>>(expected, findings);
      else if (call.element == ElementType::bfloat16)
        check_reduced<__nv_bfloat16, unsigned short><<<kBlocks, kThreads, 0, stream>>>(expected, findings);
      else
        check_reduced<float, unsigned int><<<kBlocks, kThreads, 0, stream>>>(expected, findings);
      break;
    case Collective::all_gather:
      check_moved<<<kBlocks, kThreads, 0, stream>>>(expected.inputs, received, call.bytes, call.bytes, expected.ranks,
                                                    findings);
      break;
    case Collective::alltoall:
      check_moved<<<kBlocks, kThreads, 0, stream>>>(
          expected.inputs + static_cast<std::size_t>(expected.rank) * call.bytes, received, call.bytes,
          call.bytes * ranks, expected.ranks, findings);
      break;
    case Collective::broadcast:
      check_moved<<<kBlocks, kThreads, 0, stream>>>(expected.inputs, received, call.bytes, call.bytes, 1, findings);
      break;
  }
  return cudaGetLastError();
}

}  // namespace busbw::fastpath
