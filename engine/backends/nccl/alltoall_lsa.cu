// All-to-all by stores to the peers' memory, an element at a time: -D 1. All ranks within reach of each other; every
// type, as nothing is computed; any alignment; not in place. Each rank stores its part for a peer into that peer's
// receive buffer.
#include <nccl_device.h>

#include "backends/nccl/device_call.hpp"
#include "backends/nccl/element_words.cuh"
#include "backends/nccl/kernel_share.hpp"

namespace busbw {
namespace {

template <class Word>
__global__ void __launch_bounds__(kKernelThreads)
    alltoall_lsa(const __grid_constant__ DeviceCall call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);

  const int rank = comm.rank;
  const int ranks = comm.nRanks;
  const auto* const send = static_cast<const Word*>(ncclGetLocalPointer(call.send_window, call.send_offset));
  const Worker worker = worker_of_rank(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
  for (std::size_t at = worker.index; at < call.count; at += worker.count)
    for (int step = 0; step < ranks; ++step) {
      const int peer = peer_of_step(rank, step, ranks);
      auto* const recv = static_cast<Word*>(ncclGetLsaPointer(call.recv_window, call.recv_offset, peer));
      recv[rank * call.count + at] = send[peer * call.count + at];
    }
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
}

struct Launch {
  const DeviceCall& call;
  const ncclDevComm& comm;
  cudaStream_t stream;

  template <class Word>
  void run() const {
    alltoall_lsa<Word><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  }
};

}  // namespace

cudaError_t launch_alltoall_lsa(const DeviceCall& call, const ncclDevComm& comm, cudaStream_t stream) {
  with_word(call.dtype, Launch{call, comm, stream});
  return cudaGetLastError();
}

}  // namespace busbw
