#pragma once
// A device communicator (ncclDevComm), through which kernels access peers, and the kernel of -D that replaces NCCL's
// own operation.
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

/// All ranks of a communicator create it at the same time, after their buffers are in symmetric windows. Destroy it
/// before the communicator.
class DeviceComm {
 public:
  /// Throws EnvironmentError on all ranks if one of them cannot run the kernel. All arguments except `flags` must
  /// outlive this. `flags.kernel` must be set.
  DeviceComm(const NcclLibrary& library, const NcclComm& comm, Team& group, std::string rank_text,
             const NcclOptions& flags, const NcclRegistration& buffers);
  ~DeviceComm();
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  /// Issues the kernel on the rank's device, which must be current. `count` has the meaning of NCCL's operation. Both
  /// addresses must lie in the rank's buffers.
  void run(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
           cudaStream_t stream) const;

 private:
  /// Reason why this rank's GPU cannot run the kernel, from checks before NCCL creates a device communicator. Empty if
  /// none is found.
  std::string kernel_error(int ranks) const;

  const NcclLibrary& library_;
  const NcclComm& comm_;
  std::string rank_text_;
  const NcclRegistration& buffers_;
  DeviceKernelInfo kernel_;
  int ctas_;
  std::unique_ptr<ncclDevComm> device_comm_;
};

}  // namespace busbw
