#pragma once
// Launches of the -D kernels, which run collectives through NCCL's device API. cuda/device_comm calls them.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

struct ncclDevComm;

namespace busbw {

enum class Dtype;
enum class Redop;

/// Threads per CTA (thread block), as in nccl-tests.
inline constexpr unsigned kKernelThreads = 512;

/// Arguments of every kernel. A window is memory registered with NCCL on all ranks. Offsets are in bytes from the start
/// of a window, and are multiples of the element size.
struct KernelArguments {
  ncclWindow_t send_window;
  std::size_t send_offset;
  ncclWindow_t recv_window;
  std::size_t recv_offset;
  std::size_t count;  // in elements, with the collective's meaning
  Dtype dtype;
  Redop redop;
  unsigned ctas;
};

// One function per algorithm; its .cu file states the requirements. Each returns cudaErrorInvalidValue for a type or
// operator that it does not support (values/device_kernels.hpp lists those).
cudaError_t launch_all_reduce_lsa(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_lsa_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_multimem(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_multimem_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_lsa(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_lsa_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_gin(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_hybrid(const KernelArguments&, const ncclDevComm&, cudaStream_t);

}  // namespace busbw
