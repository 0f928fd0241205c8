#include "backends/nccl/gpus/gpu_absence.hpp"

#include <doctest/doctest.h>

#include "support_errors.hpp"

using namespace busbw;

namespace {

std::string sentence(const std::string& error, int driver_version = 13000,
                     const std::optional<std::string>& visible = {}) {
  return no_gpu_message({error, "what CUDA says", driver_version, 13000, visible});
}

}  // namespace

TEST_CASE("no_gpu_message: no driver, or one that is too old") {
  // CUDA reports both with the same error.
  check_names(sentence("cudaErrorInsufficientDriver", 0), {"no NVIDIA driver", "libcuda.so.1", "--backend host"});
  check_names(sentence("cudaErrorInsufficientDriver", 12020), {"CUDA 12.2", "CUDA 13.0", "newer driver"});
}

TEST_CASE("no_gpu_message: no GPU, and a variable that hides them") {
  check_names(sentence("cudaErrorNoDevice"), {"the driver sees no GPU", "nvidia-smi -L", "--backend host"});
  check_names(sentence("cudaErrorNoDevice", 13000, ""), {"CUDA_VISIBLE_DEVICES= hides all", "unset"});
  check_names(sentence("cudaErrorNoDevice", 13000, "-1"), {"CUDA_VISIBLE_DEVICES=-1 hides all"});
  check_names(sentence("cudaErrorNoDevice", 13000, "7\n\x1b[2J"), {"CUDA_VISIBLE_DEVICES=7\\n\\x1b[2J shows"});
  check_names(sentence("cudaErrorNoDevice", 13000, "7,8"), {"CUDA_VISIBLE_DEVICES=7,8 shows no GPU", "nvidia-smi -L"});
}

TEST_CASE("no_gpu_message: any other CUDA error is quoted, with a remedy") {
  check_names(sentence("cudaErrorSystemNotReady"),
              {"what CUDA says", "cudaErrorSystemNotReady", "nvidia-fabricmanager", "--backend host"});
  check_names(sentence("cudaErrorNeverHeardOf"), {"what CUDA says", "cudaErrorNeverHeardOf", "nvidia-smi"});
}

TEST_CASE("visible_devices_hint: if more devices are named than visible") {
  CHECK(visible_devices_hint({}, 2).empty());
  CHECK(visible_devices_hint("", 0).empty());
  CHECK(visible_devices_hint("0,1", 2).empty());
  check_names(visible_devices_hint("0,9,1", 1), {"CUDA_VISIBLE_DEVICES=0,9,1", "names 3"});
  check_names(visible_devices_hint("0,\x1b", 1), {"CUDA_VISIBLE_DEVICES=0,\\x1b names 2"});
}

TEST_CASE("cuda_version_text: major and minor number") {
  CHECK(cuda_version_text(13000) == "13.0");
  CHECK(cuda_version_text(12080) == "12.8");
}
