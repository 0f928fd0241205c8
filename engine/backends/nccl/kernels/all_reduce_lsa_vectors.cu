// All-reduce by loads and stores of the peers' memory, 16 bytes at a time: -D 2. All ranks within reach of each other;
// every type; sum, prod, max, min, avg; any alignment, by single elements where send and receive buffer are aligned
// differently; in place too. As -D 1, but each thread has several loads under way before it reduces what came.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/device_reduction.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

/// The elements of one load.
template <class Stored>
union alignas(kVectorBytes) Vector {
  uint4 words;
  Stored elements[kVectorBytes / sizeof(Stored)];
  __device__ Vector() {}
};

/// One rank's work, with the pointers to all ranks' memory.
template <class Reduction>
struct Work {
  using Element = typename Reduction::Element;
  using Stored = typename Element::Stored;
  using Accumulator = typename Element::Accumulator;
  static constexpr unsigned kElements = kVectorBytes / sizeof(Stored);
  /// Vectors of one thread under way at a time.
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

  /// `rows` vectors, `apart` from each other, from number `at` on of those that begin at element `head`.
  template <unsigned rows>
  __device__ void vectors(std::size_t head, std::size_t at, std::size_t apart) const {
    Accumulator values[rows][kElements];
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) {
      const auto* data = reinterpret_cast<const uint4*>(from(peer) + head) + at;
      Vector<Stored> loaded[rows];
#pragma unroll
      for (unsigned row = 0; row < rows; ++row) loaded[row].words = data[row * apart];
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
      for (unsigned row = 0; row < rows; ++row) data[row * apart] = results[row].words;
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
  // Fewer rows than a whole turn has, shared by all threads.
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
  // What lies before and after the vectors, by the threads that have least of these.
#pragma unroll 1
  for (at = across.count - 1 - across.index; at < range.head + range.tail; at += across.count)
    work.one(at < range.head ? at : call.count - range.tail + at - range.head);
  barrier.sync(ncclCoopCta{}, cuda::memory_order_release);
}

}  // namespace

cudaError_t launch_all_reduce_lsa_vectors(const KernelArguments& call, const ncclDevComm& comm, cudaStream_t stream) {
  const bool can = with_reduction(call.dtype, call.redop, [&](const auto& reduction) {
    all_reduce_lsa_vectors<<<call.ctas, kKernelThreads, 0, stream>>>(call, comm, reduction);
  });
  return can ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace busbw
