#pragma once
// One launch of a kernel on NCCL's device API: where its data lies and who takes part.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

struct ncclDevComm;

namespace busbw {

enum class Dtype;
enum class Redop;

/// Threads of a CTA, as in nccl-tests.
inline constexpr unsigned kKernelThreads = 512;

/// The arguments of every kernel. Offsets are in bytes from a window's start, and multiples of the element.
struct KernelArguments {
  ncclWindow_t send_window;
  std::size_t send_offset;
  ncclWindow_t recv_window;
  std::size_t recv_offset;
  std::size_t count;  // elements, as the collective counts them
  Dtype dtype;
  Redop redop;
  unsigned ctas;
};

// Each is one algorithm, in a .cu file of its name that says what it needs. cudaErrorInvalidValue: not of that type or
// operator (support/device_kernels.hpp says of which).
cudaError_t launch_all_reduce_lsa(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_lsa_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_multimem(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_all_reduce_multimem_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_lsa(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_lsa_vectors(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_gin(const KernelArguments&, const ncclDevComm&, cudaStream_t);
cudaError_t launch_alltoall_hybrid(const KernelArguments&, const ncclDevComm&, cudaStream_t);

}  // namespace busbw
