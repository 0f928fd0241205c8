// All-to-all kernel -D 3: network transfers that the GPU starts itself (GIN, NCCL's GPU-initiated networking). Each
// rank puts a chunk into the receive buffer of every rank, itself included. Every rank has a signal (a counter) for
// each block. The block that puts a chunk increments the receiver's signal with its own block number. On all ranks, the
// same block number serves a receiver (sending_block). The receiver has all chunks when the signal of this block has
// risen by the number of ranks. Supports every type, because it computes nothing. Buffers must not be in place.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

__global__ void __launch_bounds__(kKernelThreads)
    alltoall_gin(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                 const std::size_t chunk_bytes) {
  // Read this block's signal before the barrier, because peers may raise it after the barrier.
  const unsigned signal = blockIdx.x;
  ncclGin gin{comm, 0};
  const std::uint64_t signal_before = gin.readSignal(signal);
  ncclBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, ncclTeamTagWorld{}, gin, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);

  // This thread, numbered over all blocks.
  const Worker worker = worker_in_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  for (std::size_t peer = worker.index; peer < static_cast<std::size_t>(comm.nRanks); peer += worker.count)
    gin.put(ncclTeamWorld(comm), static_cast<int>(peer), call.recv_window, call.recv_offset + comm.rank * chunk_bytes,
            call.send_window, call.send_offset + peer * chunk_bytes, chunk_bytes, ncclGin_SignalInc{signal});

  // All chunks for this rank raise the signal of this one block, so no other block waits.
  if (blockIdx.x == sending_block(comm.rank, blockDim.x, gridDim.x))
    gin.waitSignal(ncclCoopCta{}, signal, signal_before + comm.nRanks);
  gin.flush(ncclCoopCta{});
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
}

}  // namespace

cudaError_t launch_alltoall_gin(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  alltoall_gin<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, call.count * size_bytes(call.dtype));
  return cudaGetLastError();
}

}  // namespace busbw
