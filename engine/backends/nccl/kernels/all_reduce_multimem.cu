// All-reduce kernel -D 3: NVLink multicast, one element at a time. Each element belongs to one thread of one rank.
// When the thread loads it, the switch adds the elements of all ranks; when it stores the sum, the switch writes it to
// all ranks. Requires that all ranks reach each other's memory and belong to one multicast object, on GPUs of compute
// capability 9.0 or later. Supports the sum of float or double, any alignment and in-place buffers.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/multicast.cuh"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

template <class Number>
__global__ void __launch_bounds__(kKernelThreads)
    all_reduce_multimem(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x, /*multimem=*/true};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);

  const auto* const source =
      static_cast<const Number*>(ncclGetLsaMultimemPointer(call.send_window, call.send_offset, comm));
  auto* const destination = static_cast<Number*>(ncclGetLsaMultimemPointer(call.recv_window, call.recv_offset, comm));
  const Worker worker = worker_among_ranks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  for (std::size_t element = worker.index; element < call.count; element += worker.count)
    store_to_all(destination + element, load_sum_of_all(source + element));
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
}

}  // namespace

cudaError_t launch_all_reduce_multimem(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  if (call.redop != Redop::sum) return cudaErrorInvalidValue;
  if (call.dtype == Dtype::float32) {
    all_reduce_multimem<float><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  } else if (call.dtype == Dtype::float64) {
    all_reduce_multimem<double><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace busbw
