// All-to-all kernel -D 4: stores to near ranks, which this rank's stores reach, as in -D 1. Other ranks get network
// transfers that the GPU starts itself (GIN), as in -D 3 (alltoall_gin.cu has the signals). Supports every type and any
// alignment, because it computes nothing. Buffers must not be in place.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

/// Stores this rank's chunks at the near ranks, which are consecutive from rank `first_near` of the communicator.
template <class Word>
__device__ void store_near(const KernelArguments& call, const ncclTeam& world, const ncclTeam& near, int first_near,
                           const Worker& worker) {
  const auto* const send = static_cast<const Word*>(ncclGetLocalPointer(call.send_window, call.send_offset));
#pragma unroll 1
  for (std::size_t element = worker.index; element < call.count; element += worker.count)
    for (int step = 0; step < near.nRanks; ++step) {
      const int peer = peer_of_step(near.rank, step, near.nRanks);
      auto* const recv = static_cast<Word*>(ncclGetLsaPointer(call.recv_window, call.recv_offset, peer));
      recv[world.rank * call.count + element] = send[(first_near + peer) * call.count + element];
    }
}

__global__ void __launch_bounds__(kKernelThreads)
    alltoall_hybrid(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                    const unsigned element_bytes) {
  const unsigned signal = blockIdx.x;
  ncclGin gin{comm, 0};
  const std::uint64_t signal_before = gin.readSignal(signal);
  ncclBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, ncclTeamTagWorld{}, gin, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);

  const ncclTeam world = ncclTeamWorld(comm);
  const ncclTeam near = ncclTeamLsa(comm);
  const int first_near = world.rank - near.rank;
  const std::size_t chunk_bytes = call.count * element_bytes;
  const Worker worker = worker_in_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  for (std::size_t rank = worker.index; rank < static_cast<std::size_t>(world.nRanks); rank += worker.count) {
    const int peer = static_cast<int>(rank);
    if (peer >= first_near && peer < first_near + near.nRanks) continue;
    gin.put(world, peer, call.recv_window, call.recv_offset + world.rank * chunk_bytes, call.send_window,
            call.send_offset + peer * chunk_bytes, chunk_bytes, ncclGin_SignalInc{signal});
  }

  switch (element_bytes) {
    case 1: store_near<std::uint8_t>(call, world, near, first_near, worker); break;
    case 2: store_near<std::uint16_t>(call, world, near, first_near, worker); break;
    case 4: store_near<std::uint32_t>(call, world, near, first_near, worker); break;
    default: store_near<std::uint64_t>(call, world, near, first_near, worker);
  }

  if (blockIdx.x == sending_block(world.rank, blockDim.x, gridDim.x))
    gin.waitSignal(ncclCoopCta{}, signal, signal_before + (world.nRanks - near.nRanks));
  gin.flush(ncclCoopCta{});
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}

}  // namespace

cudaError_t launch_alltoall_hybrid(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  const auto element_bytes = static_cast<unsigned>(size_bytes(call.dtype));
  alltoall_hybrid<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, element_bytes);
  return cudaGetLastError();
}

}  // namespace busbw
