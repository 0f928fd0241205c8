#pragma once
// The collectives that reduce, for one type.
#include "fastpath/kernel.cuh"
#include "fastpath/reduction.cuh"

namespace busbw::fastpath {

template <class Type>
cudaError_t launch_reducing(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const float factor = operation.reduce == Reduce::avg ? 1.0f / static_cast<float>(operation.buffers.ranks) : 1.0f;
  const InFloat<Type> reduction{operation.reduce, factor};
  const Buffers& buffers = operation.buffers;
  if (operation.collective == Collective::reduce_scatter)
    return launch_work<ReduceScatter<InFloat<Type>>, false>({buffers, reduction}, operation.grid, lane, stream);
  if (operation.method == Method::two_shot)
    return launch_work<AllReduceTwoShot<InFloat<Type>>, true>({buffers, reduction}, operation.grid, lane, stream);
  return launch_work<AllReduceOneShot<InFloat<Type>>, false>({buffers, reduction}, operation.grid, lane, stream);
}

template <class Type>
void preload_reducing(int ranks) {
  preload_work<ReduceScatter<InFloat<Type>>, false>(ranks);
  preload_work<AllReduceTwoShot<InFloat<Type>>, true>(ranks);
  preload_work<AllReduceOneShot<InFloat<Type>>, false>(ranks);
}

}  // namespace busbw::fastpath
