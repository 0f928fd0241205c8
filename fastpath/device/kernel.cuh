#pragma once
// The kernel template of all operations. It runs a schedule with a work (schedule.hpp) and continues the tags of
// earlier operations.
#include "fastpath/device/peer_transport.cuh"
#include "fastpath/schedule/schedule.hpp"
#include "fastpath/schedule/work_list.hpp"

namespace busbw::fastpath {

/// Minimum number of blocks of kMaxThreads threads that must fit on a multiprocessor, so that kernels of several
/// communicators can run at the same time (docs/explanation/fast-path.md). `exchange` for up to four ranks is limited
/// to 64 registers per thread and spills a few bytes. All other kernels use up to 128 registers. `kMax`: maximum number
/// of ranks of the kernel.
template <int kMax, Method kMethod>
inline constexpr int kMinBlocksPerMultiprocessor = (kMax <= 4 && kMethod == Method::exchange) ? 2 : 1;

/// Runs one operation on one rank.
///
/// The kernel reads the last tag from GPU memory and advances it there. So a replayed graph continues from the lane's
/// current tag. The memory has one copy of the tag for each of kMaxBlocks blocks. Between kernels all copies are equal.
/// Block b reads copy b and writes the copies b, b + blocks, b + 2 blocks, ..., so no two blocks access the same copy.
/// Kernels on other streams poll these copies to wait for this kernel (launch.cu).
template <int kMax, class Work, Method kMethod>
__global__ void __launch_bounds__(kMaxThreads, (kMinBlocksPerMultiprocessor<kMax, kMethod>))
    run_operation(const __grid_constant__ Lane lane, const __grid_constant__ Work work, const int batch,
                  const int steps) {
#if __CUDA_ARCH__ >= 900
  // This kernel may have started before the previous kernel of the stream has ended.
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const std::uint64_t last_tag = *static_cast<const volatile std::uint64_t*>(lane.tags + blockIdx.x);
  PeerTransport<kMax> fabric{lane, work.buffers.rank, work.buffers.ranks, batch};
  if constexpr (kMethod == Method::direct)
    direct(fabric, work, last_tag + 1);
  else if constexpr (kMethod == Method::two_shot)
    two_shot(fabric, work, last_tag + 1, steps);
  else
    exchange(fabric, work, last_tag + 1, steps);
  __syncthreads();  // all threads have read the tag and have finished waiting for peers
#if __CUDA_ARCH__ >= 900
  // The next kernel of the stream may start now, because no thread of the block waits for a peer any more. The
  // instruction of one thread counts for its block. An earlier start would occupy resources of the GPU that
  // another communicator's kernel may need, and a peer may wait for that kernel.
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  for (unsigned copy = blockIdx.x + threadIdx.x * gridDim.x; copy < kMaxBlocks; copy += blockDim.x * gridDim.x)
    *static_cast<volatile std::uint64_t*>(lane.tags + copy) = last_tag + static_cast<std::uint64_t>(steps);
}

/// Returns the kernel for this number of ranks: there are versions with registers for 2, 4 or 8 ranks.
template <class Work, Method kMethod>
auto kernel_for(int ranks) {
  if (ranks <= 2) return run_operation<2, Work, kMethod>;
  if (ranks <= 4) return run_operation<4, Work, kMethod>;
  return run_operation<8, Work, kMethod>;
}

/// Loads the kernel onto the current device. Reading its attributes has this effect.
template <class Work, Method kMethod>
void preload_kernel(int ranks) {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, kernel_for<Work, kMethod>(ranks));
}

/// Queues the kernel of an operation.
template <class Work, Method kMethod>
cudaError_t launch_kernel(const Work& work, const Grid& grid, const Lane& lane, cudaStream_t stream) {
  // The kernel may start before the previous one of the stream has ended, if the GPU supports that.
  cudaLaunchAttribute early_start{};
  early_start.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early_start.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.stream = stream;
  config.attrs = &early_start;
  config.numAttrs = lane.starts_early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel_for<Work, kMethod>(work.buffers.ranks), lane, work, grid.batch, grid.steps);
}

/// Queues the kernel of an operation with its work of the list. `reduction`: the reduction of the works, if they
/// reduce.
template <class Works, class... Reduction>
cudaError_t launch_work(Works works, const Operation& operation, const Lane& lane, cudaStream_t stream,
                        const Reduction&... reduction) {
  cudaError_t error = cudaErrorInvalidValue;  // the list has no such work
  visit_work(works, operation.collective, operation.method, [&](auto entry) {
    using Entry = decltype(entry);
    using Work = typename Entry::Work;
    if constexpr (Entry::kMethod == Method::direct)
      error = launch_kernel<Work, Entry::kMethod>(Work{operation.transfer, reduction...}, operation.grid, lane, stream);
    else
      error = launch_kernel<Work, Entry::kMethod>(Work{operation.buffers, reduction...}, operation.grid, lane, stream);
  });
  return error;
}

/// Loads the kernels of all works in the list onto the current device.
template <class... Entries>
void preload_works(WorkList<Entries...>, int ranks) {
  (preload_kernel<typename Entries::Work, Entries::kMethod>(ranks), ...);
}

}  // namespace busbw::fastpath
