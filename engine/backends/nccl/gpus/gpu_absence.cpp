// Messages about absent GPUs, by CUDA's error and the environment.
#include "backends/nccl/gpus/gpu_absence.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/nccl/gpus/device_errors.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

/// True if this value of CUDA_VISIBLE_DEVICES hides all GPUs.
bool hides_all_gpus(const std::string& visible_devices) {
  return visible_devices.empty() || visible_devices == "-1" || visible_devices == "NoDevFiles";
}

/// Reason why no GPU can be used, and the remedies that make a GPU usable.
std::string reason_with_remedy(const GpuProbe& probe) {
  if (probe.driver_version == 0)
    return "no NVIDIA driver found (libcuda.so.1 cannot be loaded): install it, start the container with the GPUs "
           "(--gpus all)";
  if (probe.error_name == "cudaErrorInsufficientDriver")
    return fmt::format(
        "the driver supports CUDA {}, this program was built with CUDA {}: install a newer driver, or a build "
        "with an older CUDA",
        cuda_version_text(probe.driver_version), cuda_version_text(probe.runtime_version));
  if (probe.error_name == "cudaErrorNoDevice" && probe.visible_devices) {
    if (hides_all_gpus(*probe.visible_devices))
      return fmt::format("CUDA_VISIBLE_DEVICES={} hides all GPUs: unset it or name GPUs of nvidia-smi -L",
                         printable_value(*probe.visible_devices));
    return fmt::format(
        "CUDA_VISIBLE_DEVICES={} shows no GPU: its first entry does not exist, or an entry is repeated; use entries of "
        "nvidia-smi -L",
        printable_value(*probe.visible_devices));
  }
  if (probe.error_name == "cudaErrorNoDevice")
    return "the driver sees no GPU: check nvidia-smi -L, and check that a container was started with the GPUs "
           "(/dev/nvidia0)";
  if (probe.error_name == "cudaErrorSystemDriverMismatch")
    return "the driver's library (libcuda.so.1) and its kernel module have different versions: reload the module or "
           "restart the machine, and in a container remove libcuda of CUDA's compat package from LD_LIBRARY_PATH";
  if (probe.error_name == "cudaErrorMemoryAllocation")
    return "CUDA cannot start, because memory is short: raise the limits on host memory (ulimit -v, the job's memory), "
           "or stop other programs on the GPUs (nvidia-smi)";
  if (probe.error_name == "cudaErrorUnknown")
    return "CUDA cannot start and gives no reason: check nvidia-smi and the kernel log (dmesg | grep -i nvrm), and "
           "reload the driver's modules (nvidia_uvm first)";
  return device_error_message("looking for GPUs", "CUDA's start", probe.error_name, probe.error_text);
}

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

std::string no_gpu_message(const GpuProbe& probe) { return reason_with_remedy(probe) + ", or use --backend host"; }

std::string visible_devices_hint(const std::optional<std::string>& visible_devices, int visible_count) {
  if (!visible_devices || visible_devices->empty()) return {};
  const auto named_count = 1 + std::ranges::count(*visible_devices, ',');
  if (named_count <= visible_count) return {};
  return fmt::format("; CUDA_VISIBLE_DEVICES={} names {}, but CUDA stops at the first one that does not exist",
                     printable_value(*visible_devices), named_count);
}

}  // namespace busbw
