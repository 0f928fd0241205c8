#include "backends/nccl/device_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/values/quantity.hpp"

namespace busbw {
namespace {

// Seen with four GPUs of one process: the kernel of one was trapped, and CUDA said it of another.
constexpr std::string_view kLookForXid =
    "an Xid message in the kernel's log (dmesg | grep Xid) names the GPU that failed, which may be another one of its "
    "process; nvidia-smi tells their state";
constexpr std::string_view kNoRemedy = "see nvidia-smi and the kernel's log (dmesg | grep -i nvrm)";

struct Remedy {
  std::string_view name;
  bool lost;
  std::string_view words;
};

// CUDA runtime API, "CUDA error types". A lost device fails all that comes after in the process.
constexpr std::array kRemedies{
    Remedy{
        "cudaErrorECCUncorrectable", true,
        "its memory failed: drain the machine and reset the GPU (nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep Xid)"},
    Remedy{"cudaErrorContained", true,
           "its memory failed and the error was contained: restart the job, and see nvidia-smi -q -d ECC,ROW_REMAPPER"},
    Remedy{"cudaErrorNvlinkUncorrectable", true,
           "a link failed: see nvidia-smi nvlink -e, the fabric manager and the kernel's log (dmesg | grep Xid)"},
    Remedy{"cudaErrorHardwareStackError", true, kLookForXid},
    Remedy{"cudaErrorIllegalInstruction", true, kLookForXid},
    Remedy{"cudaErrorMisalignedAddress", true, kLookForXid},
    Remedy{"cudaErrorInvalidAddressSpace", true, kLookForXid},
    Remedy{"cudaErrorInvalidPc", true, kLookForXid},
    Remedy{"cudaErrorLaunchFailure", true, kLookForXid},
    Remedy{"cudaErrorIllegalAddress", true, kLookForXid},
    Remedy{"cudaErrorLaunchTimeout", true,
           "the system's limit on a kernel's time was reached: use a GPU without display"},
    Remedy{"cudaErrorTensorMemoryLeak", true, kLookForXid},
    Remedy{"cudaErrorExternalDevice", true, kLookForXid},
    Remedy{"cudaErrorMpsRpcFailure", true, "the MPS server is gone: restart it (nvidia-cuda-mps-control)"},
    Remedy{"cudaErrorMpsServerNotReady", false, "wait for the MPS server, or stop it (nvidia-cuda-mps-control)"},
    Remedy{"cudaErrorMpsConnectionFailed", false, "restart the MPS server (nvidia-cuda-mps-control)"},
    Remedy{"cudaErrorDevicesUnavailable", false,
           "another process holds it: see nvidia-smi for processes and for the compute mode"},
    Remedy{"cudaErrorDeviceUninitialized", true, kLookForXid},
    Remedy{"cudaErrorUnknown", true, kLookForXid},
    Remedy{"cudaErrorNoDevice", true, "no GPU is left: see nvidia-smi and the kernel's log (dmesg | grep Xid)"},
    Remedy{"cudaErrorSystemNotReady", false, "start the fabric manager (systemctl status nvidia-fabricmanager)"},
    Remedy{"cudaErrorInsufficientDriver", false, "install a newer driver, or an older build of this program"},
    Remedy{"cudaErrorNoKernelImageForDevice", false,
           "this build has no code for this GPU: build with its architecture in CMAKE_CUDA_ARCHITECTURES"},
    Remedy{"cudaErrorUnsupportedPtxVersion", false, "install a newer driver"},
    Remedy{"cudaErrorMemoryAllocation", false,
           "the GPU has no room: lower -e, or end what else uses the GPU (nvidia-smi)"},
    Remedy{"cudaErrorHostMemoryAlreadyRegistered", false, kNoRemedy},
    Remedy{"cudaErrorStreamCaptureUnsupported", false, "this cannot be in a CUDA graph: leave -G out"},
    Remedy{"cudaErrorStreamCaptureInvalidated", false, "the CUDA graph could not be recorded: leave -G out"},
    Remedy{"cudaErrorPeerAccessUnsupported", false,
           "the GPUs cannot reach each other: see nvidia-smi topo -p2p r, or set NCCL_P2P_DISABLE=1"},
    Remedy{"cudaErrorTooManyPeers", false, "set NCCL_P2P_LEVEL or NCCL_P2P_DISABLE=1, so that fewer peers are mapped"},
};

const Remedy* remedy_for(std::string_view name) {
  const auto found = std::ranges::find(kRemedies, name, &Remedy::name);
  return found == kRemedies.end() ? nullptr : &*found;
}

}  // namespace

std::string device_error_message(std::string_view where, std::string_view doing, std::string_view name,
                                  std::string_view text) {
  const Remedy* const known = remedy_for(name);
  return fmt::format("{}: {} failed: {} ({}){}; {}", where, doing, text, name,
                     known && known->lost ? ", the GPU is lost to this job" : "", known ? known->words : kNoRemedy);
}

bool is_device_lost(std::string_view name) {
  const Remedy* const known = remedy_for(name);
  return known && known->lost;
}

std::string_view remedy_of_library_error(std::string_view said) {
  // cudaGetErrorString's texts, which NCCL quotes ("Cuda failure 2 'out of memory'").
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTexts{{
      {"out of memory", "cudaErrorMemoryAllocation"},
      {"unspecified launch failure", "cudaErrorLaunchFailure"},
      {"illegal memory access", "cudaErrorIllegalAddress"},
      {"uncorrectable ECC error", "cudaErrorECCUncorrectable"},
      {"uncorrectable NVLink error", "cudaErrorNvlinkUncorrectable"},
  }};
  for (const auto& [text, name] : kTexts)
    if (said.find(text) != std::string_view::npos) return remedy_for(name)->words;
  return "run with NCCL_DEBUG=WARN for NCCL's own account";
}

std::string out_of_memory_message(std::string_view where, std::string_view what, std::size_t asked_bytes,
                                   std::optional<std::size_t> free_bytes) {
  return fmt::format("{}: there is no room for {} of {}{}; lower -e, or end what else uses the GPU (nvidia-smi)", where,
                     what, size_text(asked_bytes),
                     free_bytes ? fmt::format(", and {} is free", size_text(*free_bytes)) : "");
}

}  // namespace busbw
