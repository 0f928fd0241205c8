// Kernels that only move data: all-gather, all-to-all and broadcast.
#include "fastpath/device/kernel.cuh"
#include "fastpath/device/kernel_launchers.hpp"

namespace busbw::fastpath {

cudaError_t launch_moving(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const Buffers& buffers = operation.buffers;
  switch (operation.collective) {
    case Collective::all_gather:
      if (operation.method == Method::direct)
        return launch_work<DirectCopy, Method::direct>({operation.transfer}, operation.grid, lane, stream);
      return launch_work<AllGather, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::alltoall: return launch_work<AllToAll, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::broadcast:
      if (operation.method == Method::two_shot)
        return launch_work<BroadcastTwoShot, Method::two_shot>({buffers}, operation.grid, lane, stream);
      return launch_work<BroadcastOneShot, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::all_reduce:
    case Collective::reduce_scatter: break;
  }
  return cudaErrorInvalidValue;
}

void preload_moving(int ranks) {
  preload_work<AllGather, Method::exchange>(ranks);
  preload_work<DirectCopy, Method::direct>(ranks);
  preload_work<AllToAll, Method::exchange>(ranks);
  preload_work<BroadcastTwoShot, Method::two_shot>(ranks);
  preload_work<BroadcastOneShot, Method::exchange>(ranks);
}

}  // namespace busbw::fastpath
