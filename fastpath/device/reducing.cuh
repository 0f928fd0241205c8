#pragma once
// Launchers of the collectives that reduce, as templates over the element type (Float16, Bfloat16 or Float32 of
// reduction.cuh). kernels_*.cu instantiate the templates.
#include "fastpath/device/kernel.cuh"
#include "fastpath/device/reduction.cuh"

namespace busbw::fastpath {

template <class Type>
cudaError_t launch_reducing_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const int ranks = operation.method == Method::direct ? operation.transfer.ranks : operation.buffers.ranks;
  const float factor = operation.redop == Redop::avg ? 1.0f / static_cast<float>(ranks) : 1.0f;
  const ReductionInFloat<Type> reduction{operation.redop, factor};
  return launch_work(ReducingWorks<ReductionInFloat<Type>>{}, operation, lane, stream, reduction);
}

template <class Type>
void preload_reducing_kernels(int ranks) {
  preload_works(ReducingWorks<ReductionInFloat<Type>>{}, ranks);
}

}  // namespace busbw::fastpath
