#pragma once
// Launchers of the collectives that reduce, as templates over the element type (Float16, Bfloat16 or Float32 of
// reduction.cuh). kernels_*.cu instantiate them.
#include "fastpath/device/kernel.cuh"
#include "fastpath/device/reduction.cuh"

namespace busbw::fastpath {

template <class Type>
cudaError_t launch_reducing_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const int ranks = operation.method == Method::direct ? operation.transfer.ranks : operation.buffers.ranks;
  const float factor = operation.redop == Redop::avg ? 1.0f / static_cast<float>(ranks) : 1.0f;
  const Float32Reduction<Type> reduction{operation.redop, factor};
  if (operation.method == Method::direct)
    return launch_kernel<DirectReduction<Float32Reduction<Type>>, Method::direct>({operation.transfer, reduction},
                                                                                  operation.grid, lane, stream);
  const Buffers& buffers = operation.buffers;
  if (operation.collective == Collective::reduce_scatter)
    return launch_kernel<ReduceScatter<Float32Reduction<Type>>, Method::exchange>({buffers, reduction}, operation.grid,
                                                                                  lane, stream);
  if (operation.method == Method::two_shot)
    return launch_kernel<AllReduceTwoShot<Float32Reduction<Type>>, Method::two_shot>({buffers, reduction},
                                                                                     operation.grid, lane, stream);
  return launch_kernel<AllReduceOneShot<Float32Reduction<Type>>, Method::exchange>({buffers, reduction}, operation.grid,
                                                                                   lane, stream);
}

template <class Type>
void preload_reducing_kernels(int ranks) {
  preload_kernel<ReduceScatter<Float32Reduction<Type>>, Method::exchange>(ranks);
  preload_kernel<AllReduceTwoShot<Float32Reduction<Type>>, Method::two_shot>(ranks);
  preload_kernel<AllReduceOneShot<Float32Reduction<Type>>, Method::exchange>(ranks);
  preload_kernel<DirectReduction<Float32Reduction<Type>>, Method::direct>(ranks);
}

}  // namespace busbw::fastpath
