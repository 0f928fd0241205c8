// All-to-all by transfers that the GPU itself starts on the network: -D 3. Needs NCCL's GIN; every type, as nothing is
// computed; not in place. Each rank puts its part for a peer, itself included, into that peer's receive buffer and
// raises a signal there; all have come when the signal has risen by the number of ranks.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

__global__ void __launch_bounds__(kKernelThreads)
    alltoall_gin(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                 const std::size_t part_bytes) {
  // A block has a signal of its own. Read before the barrier: no peer raises it before all have passed.
  const unsigned signal = blockIdx.x;
  ncclGin gin{comm, 0};
  const std::uint64_t before = gin.readSignal(signal);
  ncclBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, ncclTeamTagWorld{}, gin, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);

  const Worker worker = worker_of_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  for (std::size_t peer = worker.index; peer < static_cast<std::size_t>(comm.nRanks); peer += worker.count)
    gin.put(ncclTeamWorld(comm), static_cast<int>(peer), call.recv_window, call.recv_offset + comm.rank * part_bytes,
            call.send_window, call.send_offset + peer * part_bytes, part_bytes, ncclGin_SignalInc{signal});

  // All ranks send to this one from the same block of theirs.
  if (blockIdx.x == sending_block(comm.rank, blockDim.x, gridDim.x))
    gin.waitSignal(ncclCoopCta{}, signal, before + comm.nRanks);
  gin.flush(ncclCoopCta{});
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
}

}  // namespace

cudaError_t launch_alltoall_gin(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  alltoall_gin<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, call.count * size_bytes(call.dtype));
  return cudaGetLastError();
}

}  // namespace busbw
