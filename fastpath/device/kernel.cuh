#pragma once
// The one kernel: a schedule, a work, and the tags that go on from one operation to the next.
#include "fastpath/device/peer_transport.cuh"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// Blocks of kMaxThreads threads that find room on a multiprocessor, so that kernels of several communicators can run
/// side by side (docs/fastpath.md): `exchange` with cells of up to four ranks is held to 64 registers a thread, at the
/// price of a few bytes that it spills; what else there is takes up to 128.
template <int kMax, Method kMethod>
inline constexpr int kBlocksSideBySide = kMax <= 4 && kMethod == Method::exchange ? 2 : 1;

/// Tags live in GPU memory, a word for each block, and the kernels advance them: so an operation in a graph goes on
/// from wherever the lane stands when it is replayed. All blocks' words are alike between kernels: block b reads word b
/// and writes the words b, b + blocks, b + 2 blocks, ... and no two blocks touch the same one. Kernels of other streams
/// that wait for it look at them meanwhile (launch.cu).
template <int kMax, class Work, Method kMethod>
__global__ void __launch_bounds__(kMaxThreads, (kBlocksSideBySide<kMax, kMethod>))
    run(const __grid_constant__ Lane lane, const __grid_constant__ Work work, const int batch, const int steps) {
#if __CUDA_ARCH__ >= 900
  // This kernel may have taken its place on the GPU before the one before it has ended.
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const std::uint64_t last = *static_cast<const volatile std::uint64_t*>(lane.tags + blockIdx.x);
  PeerTransport<kMax> fabric{lane, work.buffers.rank, work.buffers.ranks, batch};
  if constexpr (kMethod == Method::direct)
    direct(fabric, work, last + 1);
  else if constexpr (kMethod == Method::two_shot)
    two_shot(fabric, work, last + 1, steps);
  else
    exchange(fabric, work, last + 1, steps);
  __syncthreads();  // all threads have read the word and have what they waited for
#if __CUDA_ARCH__ >= 900
  // The kernel behind this one may take its place now, since no thread waits for a peer any more: the first thread of a
  // block that says so speaks for all. Any sooner it would hold a place that another communicator's kernel may need,
  // for which a peer waits.
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  for (unsigned word = blockIdx.x + threadIdx.x * gridDim.x; word < kMaxBlocks; word += blockDim.x * gridDim.x)
    *static_cast<volatile std::uint64_t*>(lane.tags + word) = last + static_cast<std::uint64_t>(steps);
}

/// A kernel has room in registers for 2, 4 or 8 ranks.
template <class Work, Method kMethod>
auto kernel_for(int ranks) {
  return ranks <= 2 ? run<2, Work, kMethod> : ranks <= 4 ? run<4, Work, kMethod> : run<8, Work, kMethod>;
}

template <class Work, Method kMethod>
void preload_work(int ranks) {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, kernel_for<Work, kMethod>(ranks));
}

template <class Work, Method kMethod>
cudaError_t launch_work(const Work& work, const Grid& grid, const Lane& lane, cudaStream_t stream) {
  // GPUs before compute capability 9.0 do not know it.
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = lane.starts_early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel_for<Work, kMethod>(work.buffers.ranks), lane, work, grid.batch, grid.steps);
}

}  // namespace busbw::fastpath
