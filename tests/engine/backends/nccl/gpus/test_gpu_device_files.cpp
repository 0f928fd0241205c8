#include "backends/nccl/gpus/gpu_device_files.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <initializer_list>

#include "temporary_folder.hpp"

using namespace busbw;
using test::TemporaryFolder;

TEST_CASE("count_gpu_device_files: counts GPUs, not the driver's other files") {
  const TemporaryFolder folder;
  CHECK(count_gpu_device_files(folder.path()) == 0);
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia", "nvidia0x", "null"})
    std::ofstream(folder.file(name));
  CHECK(count_gpu_device_files(folder.path()) == 0);
  for (const char* name : {"nvidia0", "nvidia12"}) std::ofstream(folder.file(name));
  CHECK(count_gpu_device_files(folder.path()) == 2);
  CHECK(count_gpu_device_files(folder.file("missing")) == 0);
}
