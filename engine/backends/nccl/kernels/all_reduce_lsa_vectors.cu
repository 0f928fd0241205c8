// All-reduce kernel -D 2: like -D 1 (all_reduce_lsa.cu), but with accesses of 16 bytes, and with several loads per
// thread in flight before the thread reduces. Requires that all ranks reach each other's memory. Supports every type,
// any alignment, in-place buffers, and the operators sum, prod, max, min and avg. If send and receive buffer are
// aligned differently, it moves single elements.
#include <nccl_device.h>

#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "backends/nccl/kernels/device_reduction.cuh"
#include "backends/nccl/kernels/work_partition.hpp"

namespace busbw {
namespace {

/// A vector: the elements of one 16-byte load or store.
template <class Stored>
union alignas(kVectorBytes) Vector {
  uint4 words;
  Stored elements[kVectorBytes / sizeof(Stored)];
  __device__ Vector() {}
};

/// Reduces elements and vectors of the call, with pointers to all ranks' memory.
template <class Reduction>
struct Reducer {
  using Element = typename Reduction::Element;
  using Stored = typename Element::Stored;
  using Accumulator = typename Element::Accumulator;
  static constexpr unsigned kElements = kVectorBytes / sizeof(Stored);
  /// Number of vectors that a thread loads before it reduces them. Row 0 consists of the first vectors of a warp's
  /// threads, row 1 of their second vectors, and so on.
  static constexpr unsigned kRows =
      Reduction::kValuesPerThread > kElements ? Reduction::kValuesPerThread / kElements : 1;

  const KernelArguments& call;
  const Reduction& reduction;
  int ranks;

  __device__ const Stored* source(int peer) const {
    return static_cast<const Stored*>(ncclGetLsaPointer(call.send_window, call.send_offset, peer));
  }
  __device__ Stored* destination(int peer) const {
    return static_cast<Stored*>(ncclGetLsaPointer(call.recv_window, call.recv_offset, peer));
  }

  __device__ void reduce_element(std::size_t element) const {
    Accumulator value = Element::to_accumulator(source(0)[element]);
#pragma unroll 1
    for (int peer = 1; peer < ranks; ++peer)
      value = reduction.combine(value, Element::to_accumulator(source(peer)[element]));
    const Stored result = Element::to_stored(reduction.finish(value, ranks));
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) destination(peer)[element] = result;
  }

  /// Reduces the vectors first, first + stride, ... (`rows` of them). Vector 0 begins at element `head`.
  template <unsigned rows>
  __device__ void reduce_vectors(std::size_t head, std::size_t first, std::size_t stride) const {
    Accumulator values[rows][kElements];
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) {
      const auto* data = reinterpret_cast<const uint4*>(source(peer) + head) + first;
      Vector<Stored> loaded[rows];
#pragma unroll
      for (unsigned row = 0; row < rows; ++row) loaded[row].words = data[row * stride];
#pragma unroll
      for (unsigned row = 0; row < rows; ++row)
#pragma unroll
        for (unsigned i = 0; i < kElements; ++i) {
          const Accumulator value = Element::to_accumulator(loaded[row].elements[i]);
          values[row][i] = peer == 0 ? value : reduction.combine(values[row][i], value);
        }
    }
    Vector<Stored> results[rows];
#pragma unroll
    for (unsigned row = 0; row < rows; ++row)
#pragma unroll
      for (unsigned i = 0; i < kElements; ++i)
        results[row].elements[i] = Element::to_stored(reduction.finish(values[row][i], ranks));
#pragma unroll 1
    for (int peer = 0; peer < ranks; ++peer) {
      auto* data = reinterpret_cast<uint4*>(destination(peer) + head) + first;
#pragma unroll
      for (unsigned row = 0; row < rows; ++row) data[row * stride] = results[row].words;
    }
  }
};

template <class Reduction>
__global__ void __launch_bounds__(kKernelThreads, 1)
    all_reduce_lsa_vectors(const __grid_constant__ KernelArguments call, const __grid_constant__ ncclDevComm comm,
                           const Reduction reduction) {
  constexpr unsigned kRows = Reducer<Reduction>::kRows;
  const Reducer<Reduction> reducer{call, reduction, comm.nRanks};
  const VectorRange range =
      split_by_vectors(call.send_offset, call.recv_offset, call.count, kVectorBytes / Reducer<Reduction>::kElements);
  const Worker worker = worker_among_ranks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  // In the main loop, a warp takes kRows rows of consecutive vectors at a time. The loop makes only full strides: a
  // stride is what the warps of all ranks take at once.
  const std::size_t main_loop_end = vectors_in_full_strides(range.vectors, worker, kRows);
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta{}, comm, ncclTeamTagLsa{}, blockIdx.x};
  barrier.sync(ncclCoopCta{}, cuda::memory_order_acquire);

#pragma unroll 1
  for (std::size_t vector = first_vector(worker, kRows); vector < main_loop_end; vector += vector_stride(worker, kRows))
    reducer.template reduce_vectors<kRows>(range.head, vector, kWarpThreads);
  // All threads share the remaining vectors, which are fewer than one full stride. A thread takes 4, then 2 vectors at
  // a time while enough remain, so that several loads are in flight, and at last single ones.
  const Worker interleaved =
      interleaved_worker_among_ranks(threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, comm.rank, comm.nRanks);
  std::size_t vector = main_loop_end + interleaved.index;
  if constexpr (kRows > 4)
#pragma unroll 1
    for (; vector + 3 * interleaved.count < range.vectors; vector += 4 * interleaved.count)
      reducer.template reduce_vectors<4>(range.head, vector, interleaved.count);
  if constexpr (kRows > 2)
#pragma unroll 1
    for (; vector + interleaved.count < range.vectors; vector += 2 * interleaved.count)
      reducer.template reduce_vectors<2>(range.head, vector, interleaved.count);
#pragma unroll 1
  for (; vector < range.vectors; vector += interleaved.count)
    reducer.template reduce_vectors<1>(range.head, vector, interleaved.count);
  // Single elements before and after the vectors, numbered 0 .. head + tail - 1. The last threads take the first ones,
  // because they have the fewest vectors.
#pragma unroll 1
  for (std::size_t single = interleaved.count - 1 - interleaved.index; single < range.head + range.tail;
       single += interleaved.count)
    reducer.reduce_element(single < range.head ? single : call.count - range.tail + single - range.head);
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
