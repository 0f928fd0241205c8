#include "backends/nccl/nccl_backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/faulty_backend.hpp"
#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/nccl_communicator.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/cuda/nccl_survey.hpp"
#include "backends/nccl/flag_requirements.hpp"
#include "backends/nccl/gpu_absence.hpp"
#include "backends/nccl/launch_group.hpp"
#include "backends/nccl/nvml.hpp"
#include "backends/nccl/peer_access.hpp"
#include "backends/nccl/ras_service.hpp"
#include "backends/nccl/type_support.hpp"
#include "common/os/environment.hpp"
#include "common/os/file_hash.hpp"
#include "common/support/number_list.hpp"

namespace busbw {
namespace {

// Memory that NCCL itself may use on each GPU: channels with their buffers, a few hundred MB with many peers.
constexpr std::size_t kNcclBytes = std::size_t{1} << 30;

/// Returns the GPUs. Throws if a rank would have no GPU of its own.
std::vector<Gpu> require_gpus(const std::vector<Gpu>& gpus, const NcclBackendConfig& request) {
  if (request.first_device > static_cast<int>(gpus.size()) - request.ranks)
    throw EnvironmentError(fmt::format(
        "GPUs {} to {} are needed for the local ranks, one each, but this process sees {}{}; use fewer ranks "
        "or processes (-t, -g, --processes), or make more GPUs visible (CUDA_VISIBLE_DEVICES)",
        request.first_device, std::int64_t{request.first_device} + request.ranks - 1, gpus.size(),
        visible_devices_hint(process_environment("CUDA_VISIBLE_DEVICES"), static_cast<int>(gpus.size()))));
  return gpus;
}

/// True if CUDA_LAUNCH_BLOCKING is set: a launch then returns only when its work has ended. A gate would deadlock,
/// because the blocked thread is the one that must open it.
bool launches_block() {
  const std::string value = process_environment("CUDA_LAUNCH_BLOCKING").value_or("");
  return !value.empty() && value != "0";
}

/// True on all ranks if it is true on any rank. Collective.
bool any_rank(Team& world, bool is_set) {
  bool any = false;
  for (const Bytes& one : world.gather(MessageWriter().add(is_set).bytes())) any |= MessageReader(one).take<bool>();
  const Bytes shared = world.broadcast(MessageWriter().add(any).bytes());
  return MessageReader(shared).take<bool>();
}

class NcclBackend final : public Backend {
 public:
  /// If no forks follow, CUDA contexts are created while the library loads.
  NcclBackend(const NcclBackendConfig& request, const GpuSurvey& survey)
      : request_(request),
        gpus_(require_gpus(survey.gpus, request)),
        without_access_(survey.pairs_without_access),
        memory_(start_free_memory_queries(request.first_device, request.forks ? 0 : request.ranks)),
        library_(load_nccl(request.library)),
        hash_(library_.path) {
    if (request.forks) hash_.get();
    const std::string unmet =
        unmet_requirement(flag_requirements(request.flags, NCCL_VERSION_CODE), library_.version, library_.path,
                          [&](const char* function) { return library_.find(function) != nullptr; });
    if (!unmet.empty()) throw EnvironmentError(unmet);
    if (const std::string disabled = disabled_by_environment(request.flags, process_environment); !disabled.empty())
      throw EnvironmentError(disabled);
    // NVML may never answer for a faulty GPU. Open it here, where a time limit applies.
    std::future<void> nvml_opening;
    if (!request_.forks) nvml_opening = std::async(std::launch::async, [this] { nvml(); });
    for (std::size_t i = 0; i < memory_.size(); ++i)
      gpus_[static_cast<std::size_t>(request_.first_device) + i].free_bytes = memory_[i].get();
    for (int first = 0; first < request_.ranks; first += request_.gpus_per_thread)
      launch_groups_.push_back(std::make_unique<LaunchGroup>(request_.gpus_per_thread));
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
    std::size_t minimum = std::numeric_limits<std::size_t>::max();
    for (int rank = 0; rank < request_.ranks; ++rank) {
      const Gpu& gpu = gpus_.at(static_cast<std::size_t>(request_.first_device + rank));
      if (!gpu.free_bytes)
        throw EnvironmentError(fmt::format(
            "CUDA does not report the free memory of GPU {} ({}); check its state and compute mode in nvidia-smi",
            request_.first_device + rank, gpu.bus_id));
      minimum = std::min(minimum, *gpu.free_bytes);
    }
    return minimum * static_cast<std::size_t>(ranks);
  }
  std::optional<Limitation> limitation_of(Dtype dtype, bool reduces) const override {
    const auto gpus = std::span(gpus_).subspan(static_cast<std::size_t>(request_.first_device),
                                               static_cast<std::size_t>(request_.ranks));
    // A kernel of -D reduces without the library.
    return type_limitation(dtype, library_, gpus, request_.first_device, reduces && !request_.flags.kernel);
  }
  std::string least_free_device() const override {
    const auto first = gpus_.begin() + request_.first_device;
    const auto minimum = std::min_element(first, first + request_.ranks, [](const Gpu& one, const Gpu& other) {
      return one.free_bytes.value_or(0) < other.free_bytes.value_or(0);
    });
    return fmt::format("GPU {} ({}), which has the least free", minimum - gpus_.begin(), minimum->bus_id);
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
  std::vector<std::string> diagnosis() const override {
    const bool is_first = request_.first_rank == 0;
    std::map<ncclResult_t, std::vector<int>> ranks_by_state;
    live_.for_each([&](int rank, ncclComm_t communicator) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = library_.call.comm_get_async_error(communicator, &state);
      ranks_by_state[asked == ncclSuccess ? state : asked].push_back(rank);
    });
    std::vector<std::string> sentences;
    for (const auto& [state, ranks] : ranks_by_state)
      if (is_first || state != ncclSuccess)  // other processes report only errors
        sentences.push_back(fmt::format("NCCL's asynchronous state of rank {}: {}", number_list_text(ranks),
                                        library_.call.get_error_string(state)));
    if (const std::string last = library_.last_error(); !last.empty())
      sentences.push_back("NCCL's last error: " + last);
    // The service reports on the whole job, so only one process queries it.
    const auto ras = is_first ? ras_address(process_environment) : std::nullopt;
    if (ras)
      for (const std::string& line : query_ras(*ras)) sentences.push_back("NCCL's RAS service: " + line);
    return sentences;
  }
  std::vector<std::string> warnings() const override {
    std::vector<std::pair<std::string, std::string>> pairs;
    const int end = request_.first_device + request_.ranks;
    const auto used = [&](int gpu) { return gpu >= request_.first_device && gpu < end; };
    for (const auto& [one, other] : without_access_)
      if (used(one) && used(other)) pairs.emplace_back(gpus_[one].bus_id, gpus_[other].bus_id);
    const char* const disable = std::getenv("NCCL_P2P_DISABLE");
    const auto warning = request_.ranks > 1 ? peer_access_warning(pairs, disable ? disable : "") : std::nullopt;
    std::vector<std::string> warnings;
    if (warning) warnings.push_back(*warning);
    if (launches_block())
      warnings.emplace_back(
          "CUDA_LAUNCH_BLOCKING is set: every launch waits until its work has ended, so times include this wait, and "
          "device "
          "times of short operations are not measured; unset it to measure without the wait");
    return warnings;
  }
  void reserve(int, std::size_t buffer_bytes) override { buffer_bytes_ = buffer_bytes; }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override {
    const int index = world.rank() - request_.first_rank;
    NcclRankConfig rank;
    rank.device = device(index);
    rank.buffer_bytes = buffer_bytes_;
    rank.flags = request_.flags;
    rank.null_stream = request_.null_stream;
    rank.gate_enabled = !any_rank(world, launches_block());
    rank.is_single_machine = world.size() == request_.ranks;
    rank.launch_group = launch_groups_.at(static_cast<std::size_t>(index / request_.gpus_per_thread)).get();
    rank.group_index = index % request_.gpus_per_thread;
    rank.live = &live_;
    if (nvml()) rank.nvml = nvml()->gpu(rank.device.bus_id);
    check_cuda(cudaSetDevice(rank.device.index), fmt::format("rank {} on GPU {}", world.rank(), rank.device.bus_id),
               "choosing the GPU");
    return std::make_unique<NcclCommunicator>(library_, world, group, rank);
  }

 private:
  /// Opens NVML at the first use, so that no fork inherits it.
  const std::optional<Nvml>& nvml() const {
    std::call_once(nvml_once_, [this] { nvml_ = Nvml::open(); });
    return nvml_;
  }

  NcclBackendConfig request_;
  std::vector<Gpu> gpus_;
  std::vector<std::pair<int, int>> without_access_;
  std::vector<std::future<std::optional<std::size_t>>> memory_;
  NcclLibrary library_;
  FileHash hash_;
  LiveCommunicators live_;
  mutable std::once_flag nvml_once_;
  mutable std::optional<Nvml> nvml_;
  std::vector<std::unique_ptr<LaunchGroup>> launch_groups_;  // one for each -t thread of this process and its forks
  std::size_t buffer_bytes_ = 0;
};

}  // namespace

std::string nccl_headers() { return nccl_version_text(NCCL_VERSION_CODE); }

std::unique_ptr<Backend> make_nccl_backend(const NcclBackendConfig& request, const GpuSurvey& survey) {
  if (survey.gpus.empty()) throw EnvironmentError("--backend nccl: " + survey.no_gpu_reason);
  const auto copy = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "--fault", "copying a result");
    // A copy to the GPU returns before the data has arrived, and the ranks' streams do not wait for this one.
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "--fault", "copying a result");
  };
  return inject_faults(std::make_unique<NcclBackend>(request, survey), request.faults, copy);
}

}  // namespace busbw
