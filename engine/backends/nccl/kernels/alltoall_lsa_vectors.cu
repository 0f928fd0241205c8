// All-to-all by stores to the peers' memory, 16 bytes at a time: -D 2. All ranks within reach of each other; every
// type, as nothing is computed; any alignment, by single elements where a part is aligned differently at its two ends;
// not in place. As -D 1 otherwise.
#include <nccl_device.h>

#include "backends/nccl/kernels/alltoall_chunks.cuh"
#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/element_words.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

template <class Word>
__global__ void __launch_bounds__(kKernelThreads, 1)
    alltoall_lsa_vectors(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  // A peer stores here once this rank's earlier work is over, which it is where this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  const auto wait = [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); };

  const int rank = comm.rank;
  const int ranks = comm.nRanks;
  const std::size_t part_bytes = call.count * sizeof(Word);
  const Worker worker = worker_across_blocks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(Word));
  // Where parts are no whole vectors, each is aligned in its own way.
  if (range.vectors > 0 && part_bytes % kVectorBytes == 0) {
    move_chunks(PeerChunks<uint4>{call, part_bytes, range.head * sizeof(Word), range.vectors, rank, ranks}, worker, wait);
    // What lies before and after the vectors.
    const PeerChunks<Word> all{call, part_bytes, 0, call.count, rank, ranks};
    const auto rest = static_cast<unsigned>(range.head + range.tail);
    for (std::size_t i = worker.index; i < static_cast<std::size_t>(rest) * ranks; i += worker.count) {
      const unsigned peer = static_cast<unsigned>(i) / rest;
      const unsigned number = static_cast<unsigned>(i) % rest;
      const std::size_t at = number < range.head ? number : call.count - rest + number;
      all.to(peer)[at] = all.from(peer)[at];
    }
  } else {
    move_chunks(PeerChunks<Word>{call, part_bytes, 0, call.count, rank, ranks}, worker, wait);
  }
  // What is stored has arrived when the barrier is passed. Only later kernels read it.
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_alltoall_lsa_vectors(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  with_word(call.dtype, [&](auto word) {
    alltoall_lsa_vectors<decltype(word)><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  });
  return cudaGetLastError();
}

}  // namespace busbw
