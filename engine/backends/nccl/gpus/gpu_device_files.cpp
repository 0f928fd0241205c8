// Counts the files /dev/nvidia0, /dev/nvidia1, ...
#include "backends/nccl/gpus/gpu_device_files.hpp"

#include <string>
#include <string_view>
#include <system_error>

namespace busbw {

int count_gpu_device_files(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "nvidia";
  int count = 0;
  std::error_code error;  // an unreadable folder counts as a folder without GPUs
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const std::string number = name.substr(kPrefix.size());
    const bool is_gpu = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
    if (is_gpu) ++count;
  }
  return count;
}

}  // namespace busbw
