// All-reduce kernel -D 4: like -D 3 (all_reduce_multimem.cu), but with accesses of 16 bytes, and with several loads per
// thread in flight before the thread stores. Doubles are moved singly, because the switch has no 16-byte sum of
// doubles. If send and receive buffer are aligned differently, it moves single elements.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/multicast.cuh"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

/// Number of loads that a thread issues before it stores the first result. Row 0 consists of the first loads of a
/// warp's threads, row 1 of their second loads, and so on.
constexpr unsigned kRows = 8;

/// Reduces `units` elements or vectors from multicast address `source` to multicast address `destination`.
template <class Unit>
__device__ void reduce_units(const Unit* source, Unit* destination, std::size_t units, const Worker& worker) {
  for (std::size_t unit = first_vector(worker, kRows); unit < units; unit += vector_stride(worker, kRows)) {
    Unit sums[kRows];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (unit + row * kWarpThreads < units) sums[row] = load_sum_of_all(source + unit + row * kWarpThreads);
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (unit + row * kWarpThreads < units) store_to_all(destination + unit + row * kWarpThreads, sums[row]);
  }
}

__device__ void reduce_all(const KernelArguments& call, const float* source, float* destination, const Worker& worker) {
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(float));
  for (std::size_t element = worker.index; element < range.head; element += worker.count)
    store_to_all(destination + element, load_sum_of_all(source + element));
  reduce_units(reinterpret_cast<const float4*>(source + range.head),
               reinterpret_cast<float4*>(destination + range.head), range.vectors, worker);
  for (std::size_t element = call.count - range.tail + worker.index; element < call.count; element += worker.count)
    store_to_all(destination + element, load_sum_of_all(source + element));
}

__device__ void reduce_all(const KernelArguments& call, const double* source, double* destination,
                           const Worker& worker) {
  reduce_units(source, destination, call.count, worker);
}

template <class Number>
__global__ void __launch_bounds__(kKernelThreads)
    all_reduce_multimem_vectors(const __grid_constant__ KernelArguments call,
                                const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x, /*multimem=*/true};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
  const Worker worker = worker_among_ranks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  reduce_all(call, static_cast<const Number*>(ncclGetLsaMultimemPointer(call.send_window, call.send_offset, comm)),
             static_cast<Number*>(ncclGetLsaMultimemPointer(call.recv_window, call.recv_offset, comm)), worker);
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
}

}  // namespace

cudaError_t launch_all_reduce_multimem_vectors(const KernelArguments& call, const ncclDevComm& comm,
                                               cudaStream_t stream) {
  if (call.redop != Redop::sum) return cudaErrorInvalidValue;
  if (call.dtype == Dtype::float32) {
    all_reduce_multimem_vectors<float><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  } else if (call.dtype == Dtype::float64) {
    all_reduce_multimem_vectors<double><<<call.ctas, kKernelThreads, 0, stream>>>(call, comm);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace busbw
