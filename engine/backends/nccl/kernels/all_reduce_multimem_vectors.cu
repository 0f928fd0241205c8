// All-reduce kernel -D 4: like -D 3, but with accesses of 16 bytes, and with several loads per thread in flight before
// the thread stores. Doubles, which switches add one by one, are moved singly with several in flight. If send and
// receive buffer are aligned differently, it moves single elements.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/multicast.cuh"
#include "backends/nccl/kernels/work_partition.hpp"
#include "common/values/types.hpp"

namespace busbw {
namespace {

constexpr unsigned kRows = 8;

/// Reduces `units` elements or vectors from multicast address `from` to multicast address `to`.
template <class Unit>
__device__ void reduce_units(const Unit* from, Unit* to, std::size_t units, const Worker& worker) {
  for (std::size_t at = first_vector(worker, kRows); at < units; at += vector_stride(worker, kRows)) {
    Unit sums[kRows];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (at + row * kWarpThreads < units) sums[row] = load_sum_of_all(from + at + row * kWarpThreads);
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row)
      if (at + row * kWarpThreads < units) store_to_all(to + at + row * kWarpThreads, sums[row]);
  }
}

__device__ void reduce_all(const KernelArguments& call, const float* from, float* to, const Worker& worker) {
  const VectorRange range = split_by_vectors(call.send_offset, call.recv_offset, call.count, sizeof(float));
  for (std::size_t at = worker.index; at < range.head; at += worker.count)
    store_to_all(to + at, load_sum_of_all(from + at));
  reduce_units(reinterpret_cast<const float4*>(from + range.head), reinterpret_cast<float4*>(to + range.head),
               range.vectors, worker);
  for (std::size_t at = call.count - range.tail + worker.index; at < call.count; at += worker.count)
    store_to_all(to + at, load_sum_of_all(from + at));
}

__device__ void reduce_all(const KernelArguments& call, const double* from, double* to, const Worker& worker) {
  reduce_units(from, to, call.count, worker);
}

template <class Number>
__global__ void __launch_bounds__(kKernelThreads)
    all_reduce_multimem_vectors(const __grid_constant__ KernelArguments call,
                                const __grid_constant__ ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x, true};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acq_rel);
  const Worker worker = worker_of_all(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
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
