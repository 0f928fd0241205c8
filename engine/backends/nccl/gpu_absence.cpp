#include "backends/nccl/gpu_absence.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/nccl/device_errors.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

constexpr const char* kHostInstead = "or use --backend host";

bool hides_all(const std::string& visible) { return visible.empty() || visible == "-1" || visible == "NoDevFiles"; }

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

std::string no_gpu_message(const GpuProbe& look) {
  if (look.driver_version == 0)
    return fmt::format(
        "there is no NVIDIA driver here (libcuda.so.1 cannot be loaded): install it, start the container with the GPUs "
        "(--gpus all), {}",
        kHostInstead);
  if (look.error_name == "cudaErrorInsufficientDriver")
    return fmt::format(
        "the driver is made for CUDA {} and this program is built with CUDA {}: install a newer driver, or a build "
        "with an older CUDA, {}",
        cuda_version_text(look.driver_version), cuda_version_text(look.runtime_version), kHostInstead);
  if (look.error_name == "cudaErrorNoDevice" && look.visible) {
    if (hides_all(*look.visible))
      return fmt::format("CUDA_VISIBLE_DEVICES={} hides all GPUs: unset it or name some of nvidia-smi -L, {}",
                         printable_value(*look.visible), kHostInstead);
    return fmt::format(
        "CUDA_VISIBLE_DEVICES={} shows no GPU: CUDA knows the first that it names under no such number or id, or it "
        "names one twice; take those of nvidia-smi -L, {}",
        printable_value(*look.visible), kHostInstead);
  }
  if (look.error_name == "cudaErrorNoDevice")
    return fmt::format(
        "the driver sees no GPU: look at nvidia-smi -L, and in a container whether it was started with the GPUs "
        "(/dev/nvidia0), {}",
        kHostInstead);
  if (look.error_name == "cudaErrorSystemDriverMismatch")
    return fmt::format(
        "the driver's library (libcuda.so.1) and its kernel module are of different versions: load the module anew or "
        "restart the machine, and in a container leave a libcuda of CUDA's compat package out of LD_LIBRARY_PATH, {}",
        kHostInstead);
  if (look.error_name == "cudaErrorMemoryAllocation")
    return fmt::format(
        "CUDA does not start, since it finds no memory: raise the limits on the host's (ulimit -v, the job's memory), "
        "or end what else uses the GPUs (nvidia-smi), {}",
        kHostInstead);
  if (look.error_name == "cudaErrorUnknown")
    return fmt::format(
        "CUDA does not start and does not say why: see nvidia-smi and the kernel's log (dmesg | grep -i nvrm), and "
        "load the driver's modules anew (nvidia_uvm above all), {}",
        kHostInstead);
  return device_error_message("looking for GPUs", "CUDA's start", look.error_name, look.error_text) + ", " +
         kHostInstead;
}

std::string visible_devices_hint(const std::optional<std::string>& visible, int seen) {
  if (!visible || visible->empty()) return {};
  const auto named = 1 + std::ranges::count(*visible, ',');
  if (named <= seen) return {};
  return fmt::format("; CUDA_VISIBLE_DEVICES={} names {}, but CUDA reads it only up to the first that there is not",
                     printable_value(*visible), named);
}

}  // namespace busbw
