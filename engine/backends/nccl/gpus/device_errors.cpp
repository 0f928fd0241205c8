// Table of remedies by CUDA error name, and the messages made from it.
#include "backends/nccl/gpus/device_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/values/quantity.hpp"

namespace busbw {
namespace {

// An Xid message is the driver's report of a GPU error in the kernel log. CUDA can report the error for a healthy GPU.
// This was seen with four GPUs in one process, after a kernel of another GPU had trapped.
constexpr std::string_view kXidRemedy =
    "find the GPU that failed by its Xid message (dmesg | grep Xid), which may be another GPU of the process, and "
    "check nvidia-smi";
constexpr std::string_view kDefaultRemedy = "check nvidia-smi and the kernel log (dmesg | grep -i nvrm)";

struct Remedy {
  std::string_view error_name;
  bool is_device_lost;
  std::string_view text;
};

// Error names from the documentation of the CUDA runtime API, section "CUDA error types". After the device is lost, all
// later calls of the process fail.
constexpr Remedy kRemedies[]{
    {"cudaErrorECCUncorrectable", true,
     "its memory failed: drain the machine and reset the GPU (nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep Xid)"},
    {"cudaErrorContained", true,
     "its memory failed and the error was contained: restart the job and check nvidia-smi -q -d ECC,ROW_REMAPPER"},
    {"cudaErrorNvlinkUncorrectable", true,
     "an NVLink failed: check nvidia-smi nvlink -e, the fabric manager and the kernel log (dmesg | grep Xid)"},
    {"cudaErrorHardwareStackError", true, kXidRemedy},
    {"cudaErrorIllegalInstruction", true, kXidRemedy},
    {"cudaErrorMisalignedAddress", true, kXidRemedy},
    {"cudaErrorInvalidAddressSpace", true, kXidRemedy},
    {"cudaErrorInvalidPc", true, kXidRemedy},
    {"cudaErrorLaunchFailure", true, kXidRemedy},
    {"cudaErrorIllegalAddress", true, kXidRemedy},
    {"cudaErrorLaunchTimeout", true, "a kernel exceeded the system's time limit: use a GPU without display"},
    {"cudaErrorTensorMemoryLeak", true, kXidRemedy},
    {"cudaErrorExternalDevice", true, kXidRemedy},
    {"cudaErrorMpsRpcFailure", true, "the MPS server has ended: restart it (nvidia-cuda-mps-control)"},
    {"cudaErrorMpsServerNotReady", false, "wait for the MPS server, or stop it (nvidia-cuda-mps-control)"},
    {"cudaErrorMpsConnectionFailed", false, "restart the MPS server (nvidia-cuda-mps-control)"},
    {"cudaErrorDevicesUnavailable", false,
     "another process holds it: check the processes and the compute mode in nvidia-smi"},
    {"cudaErrorDeviceUninitialized", true, kXidRemedy},
    {"cudaErrorUnknown", true, kXidRemedy},
    {"cudaErrorNoDevice", true, "no GPU is left: check nvidia-smi and the kernel log (dmesg | grep Xid)"},
    {"cudaErrorSystemNotReady", false, "start the fabric manager (systemctl status nvidia-fabricmanager)"},
    {"cudaErrorInsufficientDriver", false, "install a newer driver, or an older build of this program"},
    {"cudaErrorNoKernelImageForDevice", false,
     "this build has no code for this GPU: build with its architecture in CMAKE_CUDA_ARCHITECTURES"},
    {"cudaErrorUnsupportedPtxVersion", false, "install a newer driver"},
    {"cudaErrorMemoryAllocation", false,
     "the GPU has too little memory: lower -e, or stop other programs on it (nvidia-smi)"},
    {"cudaErrorStreamCaptureUnsupported", false, "a CUDA graph cannot contain this operation: leave -G out"},
    {"cudaErrorStreamCaptureInvalidated", false, "the CUDA graph could not be captured: leave -G out"},
    {"cudaErrorPeerAccessUnsupported", false,
     "the GPUs cannot reach each other: check nvidia-smi topo -p2p r, or set NCCL_P2P_DISABLE=1"},
    {"cudaErrorTooManyPeers", false, "set NCCL_P2P_LEVEL or NCCL_P2P_DISABLE=1, so that fewer peers are mapped"},
};

/// Null if the table has no such error.
const Remedy* find_remedy(std::string_view error_name) {
  const auto remedy = std::ranges::find(kRemedies, error_name, &Remedy::error_name);
  return remedy == std::end(kRemedies) ? nullptr : remedy;
}

}  // namespace

std::string make_rank_text(int rank, std::string_view bus_id) { return fmt::format("rank {} on GPU {}", rank, bus_id); }

std::string device_error_message(std::string_view rank_text, std::string_view activity, std::string_view error_name,
                                 std::string_view error_text) {
  const Remedy* const remedy = find_remedy(error_name);
  return fmt::format("{}: {} failed: {} ({}){}; {}", rank_text, activity, error_text, error_name,
                     remedy && remedy->is_device_lost ? ", the GPU is lost to this job" : "",
                     remedy ? remedy->text : kDefaultRemedy);
}

bool is_device_lost(std::string_view error_name) {
  const Remedy* const remedy = find_remedy(error_name);
  return remedy && remedy->is_device_lost;
}

std::string_view remedy_of_library_error(std::string_view message) {
  // Texts of cudaGetErrorString, which NCCL quotes ("Cuda failure 2 'out of memory'").
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kErrorNames{{
      {"out of memory", "cudaErrorMemoryAllocation"},
      {"unspecified launch failure", "cudaErrorLaunchFailure"},
      {"illegal memory access", "cudaErrorIllegalAddress"},
      {"uncorrectable ECC error", "cudaErrorECCUncorrectable"},
      {"uncorrectable NVLink error", "cudaErrorNvlinkUncorrectable"},
  }};
  for (const auto& [error_text, error_name] : kErrorNames)
    if (message.find(error_text) != std::string_view::npos) return find_remedy(error_name)->text;
  return "run with NCCL_DEBUG=WARN to see NCCL's message";
}

std::string out_of_memory_message(std::string_view rank_text, std::string_view purpose, std::size_t requested_bytes,
                                  std::optional<std::size_t> free_bytes) {
  return fmt::format(
      "{}: too little GPU memory for {} of {}{}; lower -e, or stop other programs on the GPU (nvidia-smi)", rank_text,
      purpose, size_text(requested_bytes), free_bytes ? fmt::format(" ({} is free)", size_text(*free_bytes)) : "");
}

}  // namespace busbw
