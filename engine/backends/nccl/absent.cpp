// Replaces cuda/nccl_backend.cpp in a build without CUDA: no GPU is found, and the NCCL backend cannot be made.
#include "backends/nccl/gpus/gpu_device_files.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "common/support/error.hpp"

namespace busbw {

std::string nccl_headers() { return {}; }

GpuSurvey survey_gpus(bool /*forks_follow*/) {
  return {.gpus = {},
          .no_gpu_reason =
              "this build has no GPU engine: run `make wheel` and install its wheel, or use "
              "--backend host",
          .unusable_gpus = count_gpu_device_files()};
}

std::unique_ptr<Backend> make_nccl_backend(const NcclBackendConfig&, const GpuSurvey& survey) {
  throw EnvironmentError("--backend nccl: " + survey.no_gpu_reason);
}

}  // namespace busbw
