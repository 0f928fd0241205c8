// All-to-all by stores to the peers' memory, 16 bytes at a time: -D 2. All ranks within reach of each other; every type,
// as nothing is computed; any alignment, by single elements where a part is aligned differently at its two ends; not in
// place. As -D 1, but each thread has several loads under way before it stores what came.
#include <nccl_device.h>

#include "backends/nccl/device_call.hpp"
#include "backends/nccl/element_words.cuh"
#include "backends/nccl/kernel_share.hpp"

namespace busbw {
namespace {

constexpr unsigned kRows = 8;  // 128 bytes of a thread under way

/// One rank's part for one peer, `count` elements at byte offsets of the two windows.
template <class Word>
__device__ void move(const DeviceCall& call, int peer, std::size_t from_offset, std::size_t to_offset,
                     const Worker& worker) {
  const auto* const from = static_cast<const Word*>(ncclGetLocalPointer(call.send_window, from_offset));
  auto* const to = static_cast<Word*>(ncclGetLsaPointer(call.recv_window, to_offset, peer));
  const VectorRange range = split_by_vectors(from_offset, to_offset, call.count, sizeof(Word));
  for (std::size_t at = worker.index; at < range.head; at += worker.count) to[at] = from[at];
  const auto* const from_vectors = reinterpret_cast<const uint4*>(from + range.head);
  auto* const to_vectors = reinterpret_cast<uint4*>(to + range.head);
  for (std::size_t at = first_vector(worker, kRows); at < range.vectors; at += vector_stride(worker, kRows)) {
    uint4 loaded[kRows];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (at + row * kWarpThreads < range.vectors) loaded[row] = from_vectors[at + row * kWarpThreads];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (at + row * kWarpThreads < range.vectors) to_vectors[at + row * kWarpThreads] = loaded[row];
  }
  for (std::size_t at = call.count - range.tail + worker.index; at < call.count; at += worker.count) to[at] = from[at];
}

template <class Word>
__global__ void __launch_bounds__(kKernelThreads)
    alltoall_lsa_vectors(const __grid_constant__ DeviceCall call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);

  const Worker worker = worker_of_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  const std::size_t part_bytes = call.count * sizeof(Word);
  for (int step = 0; step < comm.nRanks; ++step) {
    const int peer = peer_of_step(comm.rank, step, comm.nRanks);
    move<Word>(call, peer, call.send_offset + peer * part_bytes, call.recv_offset + comm.rank * part_bytes, worker);
  }
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
}

struct Launch {
  const DeviceCall& call;
  const ncclDevComm& comm;
  cudaStream_t stream;

  template <class Word>
  void run() const {
    alltoall_lsa_vectors<Word><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  }
};

}  // namespace

cudaError_t launch_alltoall_lsa_vectors(const DeviceCall& call, const ncclDevComm& comm, cudaStream_t stream) {
  with_word(call.dtype, Launch{call, comm, stream});
  return cudaGetLastError();
}

}  // namespace busbw
