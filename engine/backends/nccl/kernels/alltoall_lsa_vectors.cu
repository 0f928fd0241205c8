// All-to-all kernel -D 2: like -D 1, but with stores of 16 bytes. If source and destination of a chunk are aligned
// differently, it moves single elements.
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
  // Peers may store here after this rank's earlier work has ended. It has ended when this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  const auto wait = [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); };

  const int rank = comm.rank;
  const int ranks = comm.nRanks;
  const std::size_t chunk_bytes = call.count * sizeof(Word);
  const Worker worker = worker_across_blocks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(Word));
  // If chunks are not whole vectors, each chunk has another alignment.
  if (range.vectors > 0 && chunk_bytes % kVectorBytes == 0) {
    move_chunks(PeerChunks<uint4>{call, chunk_bytes, range.head * sizeof(Word), range.vectors, rank, ranks}, worker,
                wait);
    // Elements before and after the vectors.
    const PeerChunks<Word> all{call, chunk_bytes, 0, call.count, rank, ranks};
    const auto rest = static_cast<unsigned>(range.head + range.tail);
    for (std::size_t i = worker.index; i < static_cast<std::size_t>(rest) * ranks; i += worker.count) {
      const unsigned peer = static_cast<unsigned>(i) / rest;
      const unsigned number = static_cast<unsigned>(i) % rest;
      const std::size_t at = number < range.head ? number : call.count - rest + number;
      all.to(peer)[at] = all.from(peer)[at];
    }
  } else {
    move_chunks(PeerChunks<Word>{call, chunk_bytes, 0, call.count, rank, ranks}, worker, wait);
  }
  // The barrier guarantees that the stores have arrived. Only later kernels read the data.
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
