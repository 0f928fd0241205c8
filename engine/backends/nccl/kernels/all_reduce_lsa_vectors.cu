// All-reduce kernel -D 2: like -D 1, but with accesses of 16 bytes, and with several loads per thread in flight before
// the thread reduces.
// Requires that all ranks reach each other's memory. Supports every type, any alignment, in-place
// buffers, and the operators sum, prod, max, min and avg. If send and receive buffer are aligned differently, it moves
// single elements.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/device_reduction.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

/// Elements of one 16-byte load.
template <class Stored>
union alignas(kVectorBytes) Vector {
  uint4 words;
  Stored elements[kVectorBytes / sizeof(Stored)];
  __device__ Vector() {}
};

/// Work of one rank, with pointers to all ranks' memory.
template <class Reduction>
struct Work {
  using Element = typename Reduction::Element;
  using Stored = typename Element::Stored;
  using Accumulator = typename Element::Accumulator;
  static constexpr unsigned kElements = kVectorBytes / sizeof(Stored);
  /// Vectors that a thread has in flight.
  static constexpr unsigned kRows = Reduction::kAtOnce > kElements ? Reduction::kAtOnce / kElements : 1;

  const KernelArguments& call;
  const Reduction& reduction;
  int ranks;

  __device__ const Stored* from(int peer) const {
    return static_cast<const Stored*>(ncclGetLsaPointer(call.send_window, call.send_offset, peer));
  }
  __device__ Stored* to(int peer) const {
    return static_cast<Stored*>(ncclGetLsaPointer(call.recv_window, call.recv_offset, peer));
  }

  __device__ void one(std::size_t at) const {
    Accumulator value = Element::widen(from(0)[at]);
#pragma unroll 1
    for (int peer = 1; peer < ranks; ++peer) value = reduction.combine(value, Element::widen(from(peer)[at]));
    const Stored result = Element::round(reduction.finish(value, ranks));
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) to(peer)[at] = result;
  }

  /// Reduces `rows` vectors at distance `stride`, from vector number `at` on. Vector 0 begins at element `head`.
  template <unsigned rows>
  __device__ void vectors(std::size_t head, std::size_t at, std::size_t stride) const {
    Accumulator values[rows][kElements];
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) {
      const auto* data = reinterpret_cast<const uint4*>(from(peer) + head) + at;
      Vector<Stored> loaded[rows];
#pragma unroll
      for (unsigned row = 0; row < rows; ++row) loaded[row].words = data[row * stride];
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
#pragma unroll
        for (unsigned i = 0; i < kElements; ++i) {
          const Accumulator value = Element::widen(loaded[row].elements[i]);
          values[row][i] = peer == 0 ? value : reduction.combine(values[row][i], value);
        }
    }
    Vector<Stored> results[rows];
#pragma unroll
    for (unsigned row = 0; row < rows; ++row)
#pragma unroll
      for (unsigned i = 0; i < kElements; ++i)
        results[row].elements[i] = Element::round(reduction.finish(values[row][i], ranks));
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) {
      auto* data = reinterpret_cast<uint4*>(to(peer) + head) + at;
#pragma unroll
      for (unsigned row = 0; row < rows; ++row) data[row * stride] = results[row].words;
    }
  }
};

template <class Reduction>
__global__ void __launch_bounds__(kKernelThreads, 1)
    all_reduce_lsa_vectors(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                           const Reduction reduction) {
  constexpr unsigned kRows = Work<Reduction>::kRows;
  const Work<Reduction> work{call, reduction, comm.nRanks};
  const VectorRange range =
      split_by_vectors(call.send_offset, call.recv_offset, call.count, kVectorBytes / Work<Reduction>::kElements);
  const Worker worker = worker_of_all(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  const std::size_t whole = vectors_in_full_strides(range.vectors, worker, kRows);
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire);

#pragma unroll 1
  for (std::size_t at = first_vector(worker, kRows); at < whole; at += vector_stride(worker, kRows))
    work.template vectors<kRows>(range.head, at, kWarpThreads);
  // The remaining vectors are fewer than one full stride; all threads share them.
  const Worker across = worker_across_all(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  std::size_t at = whole + across.index;
  if constexpr (kRows > 4)
#pragma unroll 1
    for (; at + 3 * across.count < range.vectors; at += 4 * across.count)
      work.template vectors<4>(range.head, at, across.count);
  if constexpr (kRows > 2)
#pragma unroll 1
    for (; at + across.count < range.vectors; at += 2 * across.count)
      work.template vectors<2>(range.head, at, across.count);
#pragma unroll 1
  for (; at < range.vectors; at += across.count) work.template vectors<1>(range.head, at, across.count);
  // Single elements before and after the vectors. The last threads take them first, because they have the fewest
  // vectors.
#pragma unroll 1
  for (at = across.count - 1 - across.index; at < range.head + range.tail; at += across.count)
    work.one(at < range.head ? at : call.count - range.tail + at - range.head);
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_all_reduce_lsa_vectors(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  const bool is_supported = with_reduction(call.dtype, call.redop, [&](const auto& reduction) {
    all_reduce_lsa_vectors<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, reduction);
  });
  return is_supported ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace busbw
