#pragma once
// Counts the GPUs of this machine by the device files of NVIDIA's driver, without CUDA.
#include <filesystem>

namespace busbw {

/// Number of the files /dev/nvidia0, /dev/nvidia1, ... The files are not opened, because that would wake the GPUs. So
/// the number includes GPUs that this job may not use. In a container without GPUs, it is 0. Only tests pass another
/// `folder`.
int count_gpu_device_files(const std::filesystem::path& folder = "/dev");

}  // namespace busbw
