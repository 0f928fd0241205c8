#pragma once
// Why a process sees no GPU, or fewer than it takes, and what a person can do about it.
#include <optional>
#include <string>

namespace busbw {

/// What a look for GPUs came to, and what it looked at.
struct GpuProbe {
  std::string error_name;              // CUDA's, such as "cudaErrorNoDevice"
  std::string error_text;
  int driver_version = 0;              // of CUDA, as it counts: 12020; 0: there is no driver
  int runtime_version = 0;             // of CUDA, that this program was built with
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
};

/// One sentence with the remedy.
std::string no_gpu_message(const GpuProbe& look);

/// A half sentence to go behind one that says that `seen` GPUs are too few, where CUDA_VISIBLE_DEVICES names more than
/// that; else empty.
std::string visible_devices_hint(const std::optional<std::string>& visible, int seen);

/// "13.0" of 13000.
std::string cuda_version_text(int version);

}  // namespace busbw
