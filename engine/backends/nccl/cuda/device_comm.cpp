#include "backends/nccl/cuda/device_comm.hpp"

#include <fmt/format.h>
#include <nccl_device.h>

#include <string>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/kernels/device_api_kernels.hpp"
#include "common/support/error.hpp"
#include "values/message.hpp"

namespace busbw {
namespace {

std::string flag_of(const DeviceKernelInfo& kernel) {
  return fmt::format("-D {} (--device_implementation)", kernel.number);
}

/// Gives every member the first nonempty message in rank order. All members then fail together, and none fails while
/// others still use NCCL.
std::string first_message(Team& group, const std::string& own) {
  const auto all = group.gather(MessageWriter().add(own).bytes());
  std::string first;
  for (const Bytes& sentence : all)
    if (first.empty()) first = MessageReader(sentence).take_text();
  return MessageReader(group.broadcast(MessageWriter().add(first).bytes())).take_text();
}

ncclDevCommRequirements requirements_of(const DeviceKernelInfo& kernel, int ctas) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements needs{};
#endif
  if (kernel.gin) {
    needs.barrierCount = ctas;
    needs.ginSignalCount = ctas;
#if NCCL_VERSION_CODE >= 22907
    needs.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
#elif NCCL_VERSION_CODE >= 22900
    needs.ginForceEnable = true;
#endif
  } else {
    needs.lsaBarrierCount = ctas;
    needs.lsaMultimem = kernel.multimem;
  }
  return needs;
}

}  // namespace

DeviceComm::DeviceComm(const NcclLibrary& library, const NcclComm& comm, Team& group, std::string where,
                       const NcclOptions& flags, const NcclRegistration& buffers)
    : library_(library),
      comm_(comm),
      where_(std::move(where)),
      buffers_(buffers),
      kernel_(*flags.kernel),
      ctas_(flags.kernel_ctas),
      device_(std::make_unique<ncclDevComm>()) {
  std::string reason = first_message(group, kernel_error(group.size()));
  if (!reason.empty()) throw EnvironmentError(reason);
  const ncclDevCommRequirements needs = requirements_of(kernel_, ctas_);
  const ncclResult_t result = library.call.dev_comm_create(comm.get(), &needs, device_.get());
  if (result != ncclSuccess) {
    const std::string message = library.last_error();
    reason = fmt::format(": {}{}{}", library.call.get_error_string(result), message.empty() ? "" : ": ", message);
  }
  // NCCL may create a device communicator that does not meet all requirements.
  const bool is_incomplete =
      (kernel_.gin && device_->ginContextCount == 0) || (kernel_.multimem && !device_->lsaMultimem.mcBasePtr);
  if (result != ncclSuccess || is_incomplete) {
    const char* const needed = kernel_.gin        ? "a network with transfers that the GPU starts (GIN)"
                               : kernel_.multimem ? "NVLink multicast"
                                                  : "a device communicator";
    reason = fmt::format(
        "{}: {} needs {}, and NCCL makes none{}; leave -D out, or run with NCCL_DEBUG=WARN to see NCCL's "
        "message",
        where_, flag_of(kernel_), needed, reason);
  }
  reason = first_message(group, reason);
  if (!reason.empty()) throw EnvironmentError(reason);
}

std::string DeviceComm::kernel_error(int ranks) const {
  if (const int reachable = library_.call.team_lsa(comm_.get()).nRanks; kernel_.needs_peer_memory && reachable != ranks)
    return fmt::format(
        "{}: {} accesses the memory of all {} ranks, but this rank reaches only {}; use GPUs that "
        "reach each other (nvidia-smi topo -p2p r), or leave -D out",
        where_, flag_of(kernel_), ranks, reachable);
  if (!kernel_.multimem) return "";
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), where_, "querying the current GPU");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), where_,
             "querying the compute capability");
  if (major >= 9) return "";
  return fmt::format(
      "{}: {} needs NVLink multicast, which GPUs before compute capability 9.0 do not have; this one has "
      "{}.x; use -D 1 or 2",
      where_, flag_of(kernel_), major);
}

DeviceComm::~DeviceComm() {
  if (comm_.ends_in_order()) library_.call.dev_comm_destroy(comm_.get(), device_.get());
}

void DeviceComm::run(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                     cudaStream_t stream) const {
  const WindowAddress from = buffers_.locate(send);
  const WindowAddress to = buffers_.locate(recv);
  const KernelArguments call{from.window, from.offset_bytes,           to.window, to.offset_bytes, count, dtype,
                             redop,       static_cast<unsigned>(ctas_)};
  const auto launch_kernel = [&] {
    switch (kernel_.kernel) {
      case DeviceKernel::all_reduce_lsa: return launch_all_reduce_lsa(call, *device_, stream);
      case DeviceKernel::all_reduce_lsa_vectors: return launch_all_reduce_lsa_vectors(call, *device_, stream);
      case DeviceKernel::all_reduce_multimem: return launch_all_reduce_multimem(call, *device_, stream);
      case DeviceKernel::all_reduce_multimem_vectors: return launch_all_reduce_multimem_vectors(call, *device_, stream);
      case DeviceKernel::alltoall_lsa: return launch_alltoall_lsa(call, *device_, stream);
      case DeviceKernel::alltoall_lsa_vectors: return launch_alltoall_lsa_vectors(call, *device_, stream);
      case DeviceKernel::alltoall_gin: return launch_alltoall_gin(call, *device_, stream);
      case DeviceKernel::alltoall_hybrid: return launch_alltoall_hybrid(call, *device_, stream);
    }
    return cudaErrorInvalidValue;
  };
  check_cuda(launch_kernel(), where_, "launching a kernel of -D");
}

}  // namespace busbw
