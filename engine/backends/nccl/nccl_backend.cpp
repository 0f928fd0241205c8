#include "backends/nccl/nccl_backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "backends/nccl/cuda.hpp"
#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/nvml.hpp"
#include "support/file_hash.hpp"

namespace busbw {
namespace {

// What NCCL takes for itself of each GPU: channels and their buffers, a few hundred MB with many peers.
constexpr std::size_t kNcclBytes = std::size_t{1} << 30;

/// A GPU as it comes through a pipe.
struct PlainGpu {
  char name[256];
  char bus_id[16];
  std::size_t free_bytes;
};

struct PlainSurvey {
  int count;  // negative: CUDA's error
  PlainGpu gpus[64];
};

/// In the child: everything here may initialise CUDA.
PlainSurvey look() {
  PlainSurvey survey{};
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return {-static_cast<int>(error), {}};
  survey.count = std::min<int>(count, std::size(survey.gpus));
  for (int i = 0; i < survey.count; ++i) {
    cudaDeviceProp properties{};
    PlainGpu& gpu = survey.gpus[i];
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    std::memcpy(gpu.name, properties.name, sizeof(gpu.name) - 1);
    cudaDeviceGetPCIBusId(gpu.bus_id, sizeof(gpu.bus_id), i);
    std::size_t total = 0;
    if (cudaSetDevice(i) != cudaSuccess || cudaMemGetInfo(&gpu.free_bytes, &total) != cudaSuccess) gpu.free_bytes = 0;
  }
  return survey;
}

/// The same from a child process; nothing where that could not be made or did not come back.
std::optional<PlainSurvey> look_in_child() {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    const PlainSurvey survey = look();
    const bool whole = write(ends[1], &survey, sizeof(survey)) == static_cast<ssize_t>(sizeof(survey));
    _exit(whole ? 0 : 1);
  }
  close(ends[1]);
  PlainSurvey survey{};
  std::size_t got = 0;
  while (child > 0 && got < sizeof(survey)) {
    const ssize_t part = read(ends[0], reinterpret_cast<char*>(&survey) + got, sizeof(survey) - got);
    if (part <= 0) break;
    got += static_cast<std::size_t>(part);
  }
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (got < sizeof(survey)) return std::nullopt;
  return survey;
}

/// "0000:0F:00.0" as "0000:0f:00", the form that nccl-tests prints.
std::string printed_bus_id(std::string bus_id) {
  std::ranges::transform(bus_id, bus_id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus_id.substr(0, bus_id.find('.'));
}

/// "13.0" of 13000.
std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

class NcclBackend final : public Backend {
 public:
  NcclBackend(const NcclRequest& request, const GpuSurvey& survey)
      : request_(request), gpus_(survey.gpus), library_(load_nccl(request.library)), hash_(library_.path) {
    if (request.forks) hash_.get();
    const int needed = request.first_device + request.ranks;
    if (needed > static_cast<int>(gpus_.size()))
      throw EnvironmentError(
          fmt::format("GPUs {} to {} are needed for the ranks here, and this process sees {}; ask for fewer ranks or "
                      "processes (-t, "
                      "-g, --processes), or make more GPUs visible (CUDA_VISIBLE_DEVICES)",
                      request.first_device, needed - 1, gpus_.size()));
  }

  std::string name() const override { return "nccl"; }
  std::string version() const override { return std::to_string(library_.version); }
  std::optional<LibraryInfo> library() const override {
    return LibraryInfo{nccl_version_text(library_.version), library_.path, hash_.get()};
  }
  std::string headers() const override { return std::to_string(NCCL_VERSION_CODE); }
  Device device(int index) const override {
    const int number = request_.first_device + index;
    const Gpu& gpu = gpus_.at(static_cast<std::size_t>(number));
    return {number, gpu.bus_id, gpu.name};
  }
  std::size_t available_bytes(int ranks) const override {
    std::size_t least = gpus_.at(static_cast<std::size_t>(request_.first_device)).free_bytes;
    for (int rank = 0; rank < request_.ranks; ++rank)
      least = std::min(least, gpus_.at(static_cast<std::size_t>(request_.first_device + rank)).free_bytes);
    return least * static_cast<std::size_t>(ranks);
  }
  std::size_t work_bytes(int ranks) const override { return kNcclBytes * static_cast<std::size_t>(ranks); }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    std::vector<std::pair<std::string, std::string>> facts{{"nccl_version", nccl_version_text(library_.version)},
                                                           {"nccl_library", library_.path},
                                                           {"nccl_headers", nccl_version_text(NCCL_VERSION_CODE)}};
    if (const auto hash = hash_.get()) facts.emplace_back("nccl_library_sha256", *hash);
    int version = 0;
    if (cudaRuntimeGetVersion(&version) == cudaSuccess) facts.emplace_back("cuda_runtime", cuda_version_text(version));
    if (cudaDriverGetVersion(&version) == cudaSuccess) facts.emplace_back("cuda_driver", cuda_version_text(version));
    if (!nvml()) return facts;
    if (const auto driver = nvml()->driver_version()) facts.emplace_back("driver", *driver);
    const auto gpu = nvml()->gpu(device(0).bus_id);
    const auto links = gpu ? gpu->nvlinks() : std::nullopt;
    if (links) facts.emplace_back("nvlinks_per_gpu", std::to_string(*links));
    return facts;
  }
  void reserve(int, std::size_t buffer_bytes) override { buffer_bytes_ = buffer_bytes; }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override {
    const int index = world.rank() - request_.first_rank;
    check_cuda(cudaSetDevice(device(index).index), "choosing the GPU");
    return std::make_unique<NcclCommunicator>(library_, world, group, buffer_bytes_, request_.null_stream,
                                              nvml() ? nvml()->gpu(device(index).bus_id) : std::nullopt);
  }

 private:
  /// Opened by the first that asks, so that no fork carries it over.
  const std::optional<Nvml>& nvml() const {
    std::call_once(nvml_once_, [this] { nvml_ = Nvml::open(); });
    return nvml_;
  }

  NcclRequest request_;
  std::vector<Gpu> gpus_;
  NcclLibrary library_;
  FileHash hash_;
  mutable std::once_flag nvml_once_;
  mutable std::optional<Nvml> nvml_;
  std::size_t buffer_bytes_ = 0;
};

}  // namespace

GpuSurvey survey_gpus() {
  const std::optional<PlainSurvey> found = look_in_child();
  if (!found)
    return {{}, "the child process that looks for GPUs did not come back; run nvidia-smi and see what it says"};
  if (found->count < 0) {
    const auto error = static_cast<cudaError_t>(-found->count);
    return {{},
            fmt::format("CUDA says: {}; check the driver with nvidia-smi, or use --backend host",
                        cudaGetErrorString(error))};
  }
  GpuSurvey survey;
  for (int i = 0; i < found->count; ++i) {
    const PlainGpu& gpu = found->gpus[i];
    survey.gpus.push_back({gpu.name, printed_bus_id(gpu.bus_id), gpu.free_bytes});
  }
  if (survey.gpus.empty()) survey.why_none = "CUDA finds no GPU (see CUDA_VISIBLE_DEVICES), use --backend host";
  return survey;
}

std::unique_ptr<Backend> make_nccl_backend(const NcclRequest& request, const GpuSurvey& survey) {
  if (survey.gpus.empty()) throw EnvironmentError("--backend nccl: " + survey.why_none);
  return std::make_unique<NcclBackend>(request, survey);
}

}  // namespace busbw
