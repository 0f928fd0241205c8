// All-to-all kernel -D 2: like -D 1 (alltoall_lsa.cu), but with loads and stores of 16 bytes. If source and destination
// of a chunk are aligned differently, it moves single elements.
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
  // Tells the peers that they may store here: the rank's earlier work has ended, because this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  const auto wait = [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); };

  const int rank = comm.rank;
  const int ranks = comm.nRanks;
  const std::size_t chunk_bytes = call.count * sizeof(Word);
  const Worker worker = interleaved_worker_in_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(Word));
  // If the chunk size is not a multiple of the vector size, each chunk has another alignment.
  if (range.vectors > 0 && chunk_bytes % kVectorBytes == 0) {
    move_chunks(PeerChunks<uint4>{call, chunk_bytes, range.head * sizeof(Word), range.vectors, rank, ranks}, worker,
                wait);
    // Single elements of each chunk, before and after its vectors. They are numbered over all chunks.
    const PeerChunks<Word> whole_chunks{call, chunk_bytes, 0, call.count, rank, ranks};
    const auto singles_per_peer = static_cast<unsigned>(range.head + range.tail);
    const std::size_t singles = static_cast<std::size_t>(singles_per_peer) * ranks;
    for (std::size_t single = worker.index; single < singles; single += worker.count) {
      const unsigned peer = static_cast<unsigned>(single) / singles_per_peer;
      const unsigned single_of_peer = static_cast<unsigned>(single) % singles_per_peer;
      const bool is_before_vectors = single_of_peer < range.head;
      const std::size_t element = is_before_vectors ? single_of_peer : call.count - singles_per_peer + single_of_peer;
      whole_chunks.destination(peer)[element] = whole_chunks.source(peer)[element];
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
