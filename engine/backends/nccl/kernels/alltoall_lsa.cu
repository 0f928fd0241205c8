// All-to-all kernel -D 1: stores to the peers' memory, one element at a time. Each rank stores its chunk for a peer
// into the peer's receive buffer. Requires that all ranks reach each other's memory (NCCL: LSA, load-store accessible).
// Supports every type and any alignment, because it computes nothing. Buffers must not be in place.
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
  // Tells the peers that they may store into this rank's buffer. Relaxed order is enough: this rank's earlier work has
  // ended, because this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  const PeerChunks<Word> chunks{
      call, /*chunk_bytes=*/call.count * sizeof(Word), /*skip_bytes=*/0, /*units=*/call.count, comm.rank, comm.nRanks};
  move_chunks(chunks, interleaved_worker_in_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x),
              [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); });
  // The barrier guarantees that the stores have arrived. Release order is enough, because only later kernels read the
  // data.
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_alltoall_lsa(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  with_word(call.dtype,
            [&](auto word) { alltoall_lsa<decltype(word)><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm); });
  return cudaGetLastError();
}

}  // namespace busbw
