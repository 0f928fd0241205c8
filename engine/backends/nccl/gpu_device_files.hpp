#pragma once
// Counts the GPUs of this machine by the device files of NVIDIA's driver, without CUDA.
#include <filesystem>

namespace busbw {

/// Number of GPUs that this process can open: files /dev/nvidia0, /dev/nvidia1, ... In a container without GPUs it is
/// 0. Only tests pass another `folder`.
int count_gpu_device_files(const std::filesystem::path& folder = "/dev");

}  // namespace busbw
