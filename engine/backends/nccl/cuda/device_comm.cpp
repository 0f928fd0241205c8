// Creates a device communicator on all ranks or on none, and launches the kernel of -D.
#include "backends/nccl/cuda/device_comm.hpp"

#include <fmt/format.h>
#include <nccl_device.h>

#include <string>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

std::string flag_text(const DeviceKernelInfo& kernel) {
  return fmt::format("-D {} (--device_implementation)", kernel.number);
}

/// Returns on every rank the first nonempty `own_error` in rank order. All ranks then fail together, so that none fails
/// while others still use NCCL.
std::string share_first_error(Team& group, const std::string& own_error) {
  for (const std::string& error : all_gather_values(group, own_error))
    if (!error.empty()) return error;
  return "";
}

ncclDevCommRequirements make_requirements(const DeviceKernelInfo& kernel, int ctas) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements requirements{};
#endif
  if (kernel.needs_gin) {
    requirements.barrierCount = ctas;
    requirements.ginSignalCount = ctas;
#if NCCL_VERSION_CODE >= 22907
    requirements.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
#elif NCCL_VERSION_CODE >= 22900
    requirements.ginForceEnable = true;
#endif
  } else {
    requirements.lsaBarrierCount = ctas;
    requirements.lsaMultimem = kernel.needs_multimem;
  }
  return requirements;
}

/// Feature of NCCL and of the hardware that the kernel needs, for messages.
const char* required_feature(const DeviceKernelInfo& kernel) {
  if (kernel.needs_gin) return "a network with transfers that the GPU starts (GIN)";
  return kernel.needs_multimem ? "NVLink multicast" : "a device communicator";
}

}  // namespace

DeviceComm::DeviceComm(const NcclLibrary& library, const NcclComm& comm, Team& group, std::string rank_text,
                       const NcclOptions& flags, const NcclRegistration& buffers)
    : library_(library),
      comm_(comm),
      rank_text_(std::move(rank_text)),
      buffers_(buffers),
      kernel_(*flags.kernel),
      ctas_(flags.kernel_ctas),
      device_comm_(std::make_unique<ncclDevComm>()) {
  std::string error = share_first_error(group, kernel_error(group.size()));
  if (!error.empty()) throw EnvironmentError(error);
  const ncclDevCommRequirements requirements = make_requirements(kernel_, ctas_);
  const ncclResult_t result = library.call.dev_comm_create(comm.get(), &requirements, device_comm_.get());
  std::string nccl_error;
  if (result != ncclSuccess) {
    const std::string message = library.last_error();
    nccl_error = fmt::format(": {}{}{}", library.call.get_error_string(result), message.empty() ? "" : ": ", message);
  }
  // NCCL may create a device communicator that does not meet all requirements.
  const bool lacks_gin = kernel_.needs_gin && device_comm_->ginContextCount == 0;
  const bool lacks_multimem = kernel_.needs_multimem && !device_comm_->lsaMultimem.mcBasePtr;
  if (result != ncclSuccess || lacks_gin || lacks_multimem) {
    error = fmt::format(
        "{}: {} needs {}, and NCCL makes none{}; leave -D out, or run with NCCL_DEBUG=WARN to see NCCL's "
        "message",
        rank_text_, flag_text(kernel_), required_feature(kernel_), nccl_error);
  }
  error = share_first_error(group, error);
  if (!error.empty()) throw EnvironmentError(error);
}

std::string DeviceComm::kernel_error(int ranks) const {
  const int reachable = library_.call.team_lsa(comm_.get()).nRanks;
  if (kernel_.needs_peer_memory && reachable != ranks)
    return fmt::format(
        "{}: {} accesses the memory of all {} ranks, but this rank reaches only {}; use GPUs that "
        "reach each other (nvidia-smi topo -p2p r), or leave -D out",
        rank_text_, flag_text(kernel_), ranks, reachable);
  if (!kernel_.needs_multimem) return "";
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), rank_text_, "querying the current GPU");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), rank_text_,
             "querying the compute capability");
  if (major >= 9) return "";
  return fmt::format(
      "{}: {} needs NVLink multicast, which GPUs before compute capability 9.0 do not have; this one has "
      "{}.x; use -D 1 or 2",
      rank_text_, flag_text(kernel_), major);
}

DeviceComm::~DeviceComm() {
  if (comm_.ends_normally()) library_.call.dev_comm_destroy(comm_.get(), device_comm_.get());
}

void DeviceComm::run(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                     cudaStream_t stream) const {
  const WindowAddress send_address = buffers_.locate(send);
  const WindowAddress recv_address = buffers_.locate(recv);
  const KernelArguments arguments{.send_window = send_address.window,
                                  .send_offset = send_address.offset_bytes,
                                  .recv_window = recv_address.window,
                                  .recv_offset = recv_address.offset_bytes,
                                  .count = count,
                                  .dtype = dtype,
                                  .redop = redop,
                                  .ctas = static_cast<unsigned>(ctas_)};
  const auto launch_kernel = [&] {
    switch (kernel_.kernel) {
      case DeviceKernel::all_reduce_lsa: return launch_all_reduce_lsa(arguments, *device_comm_, stream);
      case DeviceKernel::all_reduce_lsa_vectors: return launch_all_reduce_lsa_vectors(arguments, *device_comm_, stream);
      case DeviceKernel::all_reduce_multimem: return launch_all_reduce_multimem(arguments, *device_comm_, stream);
      case DeviceKernel::all_reduce_multimem_vectors:
        return launch_all_reduce_multimem_vectors(arguments, *device_comm_, stream);
      case DeviceKernel::alltoall_lsa: return launch_alltoall_lsa(arguments, *device_comm_, stream);
      case DeviceKernel::alltoall_lsa_vectors: return launch_alltoall_lsa_vectors(arguments, *device_comm_, stream);
      case DeviceKernel::alltoall_gin: return launch_alltoall_gin(arguments, *device_comm_, stream);
      case DeviceKernel::alltoall_hybrid: return launch_alltoall_hybrid(arguments, *device_comm_, stream);
    }
    return cudaErrorInvalidValue;
  };
  check_cuda(launch_kernel(), rank_text_, "launching a kernel of -D");
}

}  // namespace busbw
