#include "fastpath/kernel.cuh"
#include "fastpath/kernels.hpp"

namespace busbw::fastpath {

cudaError_t launch_moving(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const Buffers& buffers = operation.buffers;
  switch (operation.collective) {
    case Collective::all_gather: return launch_work<AllGather, false>({buffers}, operation.grid, lane, stream);
    case Collective::alltoall: return launch_work<AllToAll, false>({buffers}, operation.grid, lane, stream);
    case Collective::broadcast:
      if (operation.method == Method::two_shot)
        return launch_work<BroadcastTwoShot, true>({buffers}, operation.grid, lane, stream);
      return launch_work<BroadcastOneShot, false>({buffers}, operation.grid, lane, stream);
    case Collective::all_reduce:
    case Collective::reduce_scatter: break;
  }
  return cudaErrorInvalidValue;
}

void preload_moving(int ranks) {
  preload_work<AllGather, false>(ranks);
  preload_work<AllToAll, false>(ranks);
  preload_work<BroadcastTwoShot, true>(ranks);
  preload_work<BroadcastOneShot, false>(ranks);
}

}  // namespace busbw::fastpath
