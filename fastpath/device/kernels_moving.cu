// Kernels that only move data: all-gather, all-to-all and broadcast.
#include "fastpath/device/kernel.cuh"
#include "fastpath/device/kernel_launchers.hpp"

namespace busbw::fastpath {

cudaError_t launch_moving_kernel(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  const Buffers& buffers = operation.buffers;
  switch (operation.collective) {
    case Collective::all_gather:
      if (operation.method == Method::direct)
        return launch_kernel<DirectCopy, Method::direct>({operation.transfer}, operation.grid, lane, stream);
      return launch_kernel<AllGather, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::alltoall:
      return launch_kernel<AllToAll, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::broadcast:
      if (operation.method == Method::two_shot)
        return launch_kernel<BroadcastTwoShot, Method::two_shot>({buffers}, operation.grid, lane, stream);
      return launch_kernel<BroadcastOneShot, Method::exchange>({buffers}, operation.grid, lane, stream);
    case Collective::all_reduce:
    case Collective::reduce_scatter: break;
  }
  return cudaErrorInvalidValue;
}

void preload_moving_kernels(int ranks) {
  preload_kernel<AllGather, Method::exchange>(ranks);
  preload_kernel<DirectCopy, Method::direct>(ranks);
  preload_kernel<AllToAll, Method::exchange>(ranks);
  preload_kernel<BroadcastTwoShot, Method::two_shot>(ranks);
  preload_kernel<BroadcastOneShot, Method::exchange>(ranks);
}

}  // namespace busbw::fastpath
