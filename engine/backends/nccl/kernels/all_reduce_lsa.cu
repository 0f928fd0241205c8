// All-reduce kernel -D 1: loads and stores the peers' memory, one element at a time. Each element belongs to one thread
// of one rank, which loads it from all ranks, reduces it and stores the result to all ranks. LSA (load-store
// accessible) is NCCL's name for memory that a rank reaches by loads and stores. Requires that all ranks reach each
// other's memory. Supports every type, any alignment, in-place buffers, and the operators sum, prod, max, min and avg.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/device_reduction.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

template <class Reduction>
__global__ void __launch_bounds__(kKernelThreads)
    all_reduce_lsa(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                   const Reduction reduction) {
  using Element = typename Reduction::Element;
  using Stored = typename Element::Stored;
  // The barrier ensures that all ranks have started before peer memory is accessed, and that all have stored before any
  // rank ends.
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire);

  const int ranks = comm.nRanks;
  const Worker worker = worker_among_ranks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, ranks);
#pragma unroll 1
  for (std::size_t element = worker.index; element < call.count; element += worker.count) {
    const auto load_from = [&](int peer) {
      const auto* data = static_cast<const Stored*>(ncclGetLsaPointer(call.send_window, call.send_offset, peer));
      return Element::to_accumulator(data[element]);
    };
    auto value = load_from(0);
#pragma unroll Reduction::kPeerUnroll
    for (int peer = 1; peer < ranks; ++peer) value = reduction.combine(value, load_from(peer));
    const Stored result = Element::to_stored(reduction.finish(value, ranks));
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer)
      static_cast<Stored*>(ncclGetLsaPointer(call.recv_window, call.recv_offset, peer))[element] = result;
  }
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_all_reduce_lsa(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  const bool is_supported = with_reduction(call.dtype, call.redop, [&](const auto& reduction) {
    all_reduce_lsa<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, reduction);
  });
  return is_supported ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace busbw
