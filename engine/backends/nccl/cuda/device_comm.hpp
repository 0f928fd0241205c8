#pragma once
// A communicator as kernels see it, and the kernel of -D that runs instead of NCCL's own operation.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <string>

#include "backends/nccl/cuda/nccl_buffers.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// Made by all ranks of a communicator at the same time, once its buffers are in symmetric windows; ends before it
/// does.
class DeviceComm {
 public:
  /// Throws EnvironmentError on all ranks where one of them cannot run the kernel. Everything named must outlive this.
  /// `flags.kernel` is there.
  DeviceComm(const NcclLibrary& library, const NcclComm& comm, Team& group, std::string where, const NcclOptions& flags,
             const NcclRegistration& buffers);
  ~DeviceComm();
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  /// Issues the kernel on the current device, the rank's: `count` as the collective counts, addresses in the rank's
  /// buffers.
  void run(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
           cudaStream_t stream) const;

 private:
  /// Why this rank's machine cannot run the kernel, as far as that is known before NCCL is asked; empty where it can.
  std::string kernel_error(int ranks) const;

  const NcclLibrary& library_;
  const NcclComm& comm_;
  std::string where_;
  const NcclRegistration& buffers_;
  DeviceKernelInfo kernel_;
  int ctas_;
  std::unique_ptr<ncclDevComm> device_;
};

}  // namespace busbw
