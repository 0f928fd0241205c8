// All-to-all kernel -D 2: like -D 1 (alltoall_lsa.cu), but with loads and stores of 16 bytes. The kernel moves single
// elements if source and destination are aligned differently, or if the chunks are not all aligned alike.
#include <nccl_device.h>

#include "backends/nccl/kernels/alltoall_chunks.cuh"
#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/element_words.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

/// Moves the edges of each chunk, one element at a time: the elements before and after the vectors. The edge elements
/// are numbered over all chunks.
template <class Word>
__device__ void move_edges(const PeerChunks<Word>& chunks, const VectorRange& range, const Worker& worker) {
  const auto edges_per_peer = static_cast<unsigned>(range.head + range.tail);
  const std::size_t edges = static_cast<std::size_t>(edges_per_peer) * chunks.ranks;
  const std::size_t tail_start = chunks.units - range.tail;
  for (std::size_t edge = worker.index; edge < edges; edge += worker.count) {
    const unsigned peer = static_cast<unsigned>(edge) / edges_per_peer;
    const unsigned edge_of_peer = static_cast<unsigned>(edge) % edges_per_peer;
    const std::size_t element = edge_of_peer < range.head ? edge_of_peer : tail_start + (edge_of_peer - range.head);
    chunks.destination(peer)[element] = chunks.source(peer)[element];
  }
}

template <class Word>
__global__ void __launch_bounds__(kKernelThreads, 1)
    alltoall_lsa_vectors(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  // Tells the peers that they may store into this rank's buffer. Relaxed order is enough: this rank's earlier work has
  // ended, because this kernel runs.
  barrier.arrive(ncclCoopCta{}, cuda::memory_order_relaxed);
  // move_chunks() calls `wait` after its first loads, which need no peer.
  const auto wait = [&] { barrier.wait(ncclCoopCta{}, cuda::memory_order_acquire); };

  const int rank = comm.rank;
  const int ranks = comm.nRanks;
  const std::size_t chunk_bytes = call.count * sizeof(Word);
  const Worker worker = interleaved_worker_in_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  const PeerChunks<Word> whole_chunks{call, chunk_bytes, /*skip_bytes=*/0, /*units=*/call.count, rank, ranks};
  // Split of the first chunk. The other chunks have the same split if the chunk size is a multiple of the vector size.
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(Word));
  const bool are_chunks_aligned_alike = chunk_bytes % kVectorBytes == 0;
  if (range.vectors > 0 && are_chunks_aligned_alike) {
    const std::size_t head_bytes = range.head * sizeof(Word);
    move_chunks(PeerChunks<uint4>{call, chunk_bytes, /*skip_bytes=*/head_bytes, /*units=*/range.vectors, rank, ranks},
                worker, wait);
    move_edges(whole_chunks, range, worker);
  } else {
    move_chunks(whole_chunks, worker, wait);
  }
  // The barrier guarantees that the stores have arrived. Release order is enough, because only later kernels read the
  // data.
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
