// Surveys the GPUs: names, bus ids, peer access. If processes are forked later, a child process surveys the GPUs and
// sends the result through a pipe, because CUDA does not survive a fork. The child also queries the free memory.
// Without forks, NcclBackend queries it later.
#include "backends/nccl/nccl_backend.hpp"

#include <cuda_runtime_api.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "backends/nccl/cuda/free_memory_queries.hpp"
#include "backends/nccl/gpus/gpu_absence.hpp"
#include "common/os/descriptor.hpp"
#include "common/os/environment.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxGpus = 64;  // more than any machine has

/// A GPU in the form that is sent through a pipe.
struct PackedGpu {
  char name[256];
  char bus_id[16];
  int compute_capability;  // 0: unknown
  bool free_known;
  std::size_t free_bytes;
};

struct PackedSurvey {
  int count;  // number of GPUs; negative: a cudaError_t
  PackedGpu gpus[kMaxGpus];
  bool lacks_access[kMaxGpus][kMaxGpus];  // [i][j], i < j: GPUs i and j cannot access each other's memory
};

/// True if two GPUs lack access in either direction. The query creates no CUDA context.
bool lacks_peer_access(int first, int second) {
  for (const auto& [from, to] : {std::pair(first, second), std::pair(second, first)}) {
    int can_access = 0;
    if (cudaDeviceCanAccessPeer(&can_access, from, to) == cudaSuccess && !can_access) return true;
  }
  return false;
}

/// Surveys the GPUs in this process. Initializes CUDA. `with_memory`: also queries the free memory, which creates a
/// CUDA context on each GPU.
PackedSurvey survey_in_this_process(bool with_memory) {
  PackedSurvey survey{};
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return {-static_cast<int>(error), {}, {}};
  survey.count = std::min(count, static_cast<int>(kMaxGpus));
  std::vector<int> queried(static_cast<std::size_t>(with_memory ? survey.count : 0));
  std::iota(queried.begin(), queried.end(), 0);
  auto memory_queries = start_free_memory_queries(queried);
  for (int i = 0; i < survey.count; ++i) {
    cudaDeviceProp properties{};
    PackedGpu& gpu = survey.gpus[i];
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    std::memcpy(gpu.name, properties.name, sizeof(gpu.name) - 1);
    gpu.compute_capability = 10 * properties.major + properties.minor;
    cudaDeviceGetPCIBusId(gpu.bus_id, sizeof(gpu.bus_id), i);
    for (int other = 0; other < i; ++other) survey.lacks_access[other][i] = lacks_peer_access(other, i);
  }
  for (std::size_t i = 0; i < memory_queries.size(); ++i) {
    const auto free = memory_queries[i].get();
    survey.gpus[i].free_known = free.has_value();
    survey.gpus[i].free_bytes = free.value_or(0);
  }
  return survey;
}

/// Surveys the GPUs in a child process. Returns nothing if the child cannot be created or sends no result.
std::optional<PackedSurvey> survey_in_child() {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    // If the driver never answers, the child must not survive the parent and keep its output open.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const PackedSurvey survey = survey_in_this_process(/*with_memory=*/true);
    const bool is_complete = write(pipe_ends[1], &survey, sizeof(survey)) == static_cast<ssize_t>(sizeof(survey));
    _exit(is_complete ? 0 : 1);
  }
  close(pipe_ends[1]);
  const Descriptor pipe_end(pipe_ends[0]);
  if (child < 0) return std::nullopt;
  PackedSurvey survey{};
  const bool is_complete = read_fully(pipe_end, &survey, sizeof(survey)) == ssize_t{sizeof(survey)};
  waitpid(child, nullptr, 0);
  return is_complete ? std::optional(survey) : std::nullopt;
}

/// Converts "0000:0F:00.0" to "0000:0f:00", the form that nccl-tests prints.
std::string printed_bus_id(std::string bus_id) {
  std::ranges::transform(bus_id, bus_id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus_id.substr(0, bus_id.find('.'));
}

}  // namespace

GpuSurvey survey_gpus(bool forks_follow) {
  const std::optional<PackedSurvey> packed =
      forks_follow ? survey_in_child() : survey_in_this_process(/*with_memory=*/false);
  if (!packed)
    return {.gpus = {},
            .no_gpu_reason = "the child process that looks for GPUs sent no result; check the driver with nvidia-smi",
            .build_has_gpu_support = true};
  if (packed->count < 0) {
    const auto error = static_cast<cudaError_t>(-packed->count);
    GpuProbe probe{cudaGetErrorName(error), cudaGetErrorString(error), /*driver_version=*/0, /*runtime_version=*/0,
                   process_environment("CUDA_VISIBLE_DEVICES")};
    // These queries do not initialize CUDA, so that later forks still work.
    if (cudaDriverGetVersion(&probe.driver_version) != cudaSuccess) probe.driver_version = 0;
    if (cudaRuntimeGetVersion(&probe.runtime_version) != cudaSuccess) probe.runtime_version = 0;
    return {.gpus = {}, .no_gpu_reason = no_gpu_message(probe), .build_has_gpu_support = true};
  }
  GpuSurvey survey;
  survey.build_has_gpu_support = true;
  for (int i = 0; i < packed->count; ++i) {
    const PackedGpu& gpu = packed->gpus[i];
    survey.gpus.push_back({i, gpu.name, printed_bus_id(gpu.bus_id),
                           gpu.free_known ? std::optional<std::size_t>(gpu.free_bytes) : std::nullopt,
                           gpu.compute_capability ? std::optional<int>(gpu.compute_capability) : std::nullopt});
    for (int other = 0; other < i; ++other)
      if (packed->lacks_access[other][i]) survey.pairs_without_access.emplace_back(other, i);
  }
  if (survey.gpus.empty())
    survey.no_gpu_reason = no_gpu_message({.error_name = "cudaErrorNoDevice",
                                           .error_text = "",
                                           .driver_version = 1,  // not queried; not 0, because there is a driver
                                           .visible_devices = process_environment("CUDA_VISIBLE_DEVICES")});
  return survey;
}

}  // namespace busbw
