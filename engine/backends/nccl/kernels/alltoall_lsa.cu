// All-to-all by stores to the peers' memory, an element at a time: -D 1. All ranks within reach of each other; every
// type, as nothing is computed; any alignment; not in place. Each rank stores its part for a peer into that peer's
// receive buffer.
#include <nccl_device.h>

#include "backends/nccl/kernels/alltoall_chunks.cuh"
#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/element_words.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

template <class Word>
__global__ void __launch_bounds__(kKernelThreads, 1)
    alltoall_lsa(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  // A peer stores here once this rank's earlier work is over, which it is where this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  const PeerChunks<Word> parts{call, call.count * sizeof(Word), 0, call.count, comm.rank, comm.nRanks};
  move_chunks(parts, worker_across_blocks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x),
             [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); });
  // What is stored has arrived when the barrier is passed. Only later kernels read it.
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_alltoall_lsa(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  with_word(call.dtype,
            [&](auto word) { alltoall_lsa<decltype(word)><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm); });
  return cudaGetLastError();
}

}  // namespace busbw
