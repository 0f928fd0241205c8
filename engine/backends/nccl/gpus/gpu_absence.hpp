#pragma once
// Explains why a process sees no GPU or too few, and gives remedies.
#include <optional>
#include <string>

namespace busbw {

/// Result of the GPU probe and the settings that explain it.
struct GpuProbe {
  std::string error_name;  // name of CUDA's error: "cudaErrorNoDevice"
  std::string error_text;
  int driver_version = 0;   // CUDA version of the driver in CUDA's format: 12020; 0: no driver
  int runtime_version = 0;  // CUDA version that this program was built with
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
};

/// One sentence with the reason why no GPU can be used, and the remedy.
std::string no_gpu_message(const GpuProbe& probe);

/// Continues a message that `visible_count` GPUs are too few, if `visible_devices` (CUDA_VISIBLE_DEVICES) names more
/// GPUs. Otherwise empty.
std::string visible_devices_hint(const std::optional<std::string>& visible_devices, int visible_count);

/// "13.0" for 13000.
std::string cuda_version_text(int version);

}  // namespace busbw
