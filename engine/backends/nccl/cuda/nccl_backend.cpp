// The NCCL backend: checks GPUs and library at the start, connects ranks, and answers questions about the hardware.
#include "backends/nccl/nccl_backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/free_memory_queries.hpp"
#include "backends/nccl/cuda/nccl_communicator.hpp"
#include "backends/nccl/cuda/nccl_join.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/cuda/nccl_lifecycle.hpp"
#include "backends/nccl/flag_requirements.hpp"
#include "backends/nccl/flow_paths.hpp"
#include "backends/nccl/gpus/gpu_absence.hpp"
#include "backends/nccl/gpus/peer_access.hpp"
#include "backends/nccl/gpus/rank_gpus.hpp"
#include "backends/nccl/launch_group.hpp"
#include "backends/nccl/lifecycle/lifecycle_functions.hpp"
#include "backends/nccl/profiler/algorithm_observer.hpp"
#include "backends/nccl/ras_service.hpp"
#include "backends/nccl/type_support.hpp"
#include "common/os/environment.hpp"
#include "common/os/file_hash.hpp"
#include "common/support/number_list.hpp"

namespace busbw {
namespace {

// Memory that NCCL itself may use for each rank: channels with their buffers, a few hundred MB with many peers.
constexpr std::size_t kNcclBytes = std::size_t{1} << 30;

std::vector<int> numbers_of(const std::vector<Gpu>& gpus) {
  std::vector<int> numbers;
  for (const Gpu& gpu : gpus) numbers.push_back(gpu.number);
  return numbers;
}

/// True if CUDA_LAUNCH_BLOCKING is set: a launch then returns only when its work has ended. A gate would deadlock,
/// because the blocked thread is the one that must open it.
bool launches_block() {
  const std::string value = process_environment("CUDA_LAUNCH_BLOCKING").value_or("");
  return !value.empty() && value != "0";
}

/// Returns true on all ranks if `is_true` is true on any rank. All ranks must call it.
bool is_true_on_any_rank(Team& world, bool is_true) {
  const std::vector<bool> answers = gather_values(world, is_true);
  return broadcast_value(world, std::ranges::find(answers, true) != answers.end());
}

class NcclBackend final : public Backend {
 public:
  /// The order of the members matters. `algorithm_observer_` sets the profiler plugin's variable before other threads
  /// start. Without later forks, `free_memory_queries_` create the CUDA contexts in other threads while the library
  /// loads.
  NcclBackend(const NcclBackendConfig& config, const GpuSurvey& survey)
      : config_(config),
        algorithm_observer_(config.flags.reports_algorithms ? make_algorithm_observer(process_environment) : nullptr),
        gpus_(gpus_of_ranks(survey.gpus, config.ranks, process_environment)),
        pairs_without_access_(survey.pairs_without_access),
        free_memory_queries_(start_free_memory_queries(config.forks ? std::vector<int>() : numbers_of(gpus_))),
        library_(config.library),
        library_hash_(start_hash_of_file(library_.path)) {
    if (config.forks) library_hash_.get();  // no fork is allowed before the hash is known (start_hash_of_file)
    config_.flags.shares_gpus = count_ranks_by_gpu(gpus_).size() < gpus_.size();
    require_flags();
    if (config_.flags.survives_losses && reads_config(library_)) {
      for (const auto& query : free_memory_queries_) query.wait();  // CUDA may read the environment until then
      forbid_blocking_communicators();
    }
    // NVML may never answer for a faulty GPU. Open it here, because the caller limits the time (CallWatchdog). The
    // destructor of the future waits until it is open.
    std::future<void> nvml_opening;
    if (!config_.forks) nvml_opening = std::async(std::launch::async, [this] { nvml_.is_available(); });
    for (std::size_t i = 0; i < free_memory_queries_.size(); ++i) gpus_[i].free_bytes = free_memory_queries_[i].get();
    for (int first = 0; first < config_.ranks.count; first += config_.gpus_per_thread)
      launch_groups_.push_back(std::make_unique<LaunchGroup>(config_.gpus_per_thread));
  }

  const BackendTraits& traits() const override { return kNcclTraits; }
  std::string version() const override { return std::to_string(library_.version); }
  std::optional<LibraryInfo> library() const override {
    return LibraryInfo{nccl_version_text(library_.version), library_.path, library_hash_.get()};
  }
  std::string headers() const override { return std::to_string(NCCL_VERSION_CODE); }
  Device device(int index) const override {
    const Gpu& gpu = gpus_.at(static_cast<std::size_t>(index));
    return {gpu.number, gpu.bus_id, gpu.name};
  }
  std::optional<NetworkPort> network_port(int index) const override {
    const Gpu& gpu = gpus_.at(static_cast<std::size_t>(index));
    return nearest_port(gpu.bus_id, gpu.number);
  }
  std::size_t available_bytes(int ranks) const override {
    // All ranks allocate equally much, so the GPU with the least free memory per rank limits them.
    std::size_t minimum = std::numeric_limits<std::size_t>::max();
    const std::map<int, int> ranks_by_gpu = count_ranks_by_gpu(gpus_);
    for (const Gpu& gpu : gpus_) {
      if (!gpu.free_bytes)
        throw EnvironmentError(fmt::format(
            "CUDA does not report the free memory of GPU {} ({}); check its state and compute mode in nvidia-smi",
            gpu.number, gpu.bus_id));
      minimum = std::min(minimum, *gpu.free_bytes / static_cast<std::size_t>(ranks_by_gpu.at(gpu.number)));
    }
    return minimum * static_cast<std::size_t>(ranks);
  }
  std::optional<Limitation> limitation_of(Dtype dtype, bool reduces) const override {
    // A kernel of -D reduces itself, so the library needs to move the elements only.
    return type_limitation(dtype, library_, gpus_, reduces && !config_.flags.kernel);
  }
  std::string least_free_device() const override {
    const auto minimum = std::ranges::min_element(gpus_, {}, [](const Gpu& gpu) { return gpu.free_bytes.value_or(0); });
    return fmt::format("GPU {} ({}), which has the least free", minimum->number, minimum->bus_id);
  }
  std::size_t work_bytes(int ranks) const override { return kNcclBytes * static_cast<std::size_t>(ranks); }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    std::vector<std::pair<std::string, std::string>> facts{{"nccl_version", nccl_version_text(library_.version)},
                                                           {"nccl_library", library_.path},
                                                           {"nccl_headers", nccl_version_text(NCCL_VERSION_CODE)}};
    if (const auto hash = library_hash_.get()) facts.emplace_back("nccl_library_sha256", *hash);
    int version = 0;
    if (cudaRuntimeGetVersion(&version) == cudaSuccess) facts.emplace_back("cuda_runtime", cuda_version_text(version));
    if (cudaDriverGetVersion(&version) == cudaSuccess) facts.emplace_back("cuda_driver", cuda_version_text(version));
    if (const auto driver = nvml_.driver_version()) facts.emplace_back("driver", *driver);
    const auto gpu = nvml_.gpu(device(0).bus_id);
    const auto links = gpu ? gpu->nvlinks() : std::nullopt;
    if (links) facts.emplace_back("nvlinks_per_gpu", std::to_string(*links));
    return facts;
  }
  std::vector<std::string> diagnosis() const override {
    const bool is_first_process = config_.first_rank == 0;
    std::map<ncclResult_t, std::set<int>> ranks_by_state;  // a rank may have several communicators
    live_communicators_.for_each([&](int rank, ncclComm_t communicator) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t query_result = library_.call.comm_get_async_error(communicator, &state);
      ranks_by_state[query_result == ncclSuccess ? state : query_result].insert(rank);
    });
    std::vector<std::string> sentences;
    for (const auto& [state, ranks] : ranks_by_state)
      if (is_first_process || state != ncclSuccess)  // other processes report only errors
        sentences.push_back(fmt::format("NCCL's asynchronous state of rank {}: {}",
                                        number_list_text(std::vector<int>(ranks.begin(), ranks.end())),
                                        library_.call.get_error_string(state)));
    if (const std::string last_error = library_.last_error(); !last_error.empty())
      sentences.push_back("NCCL's last error: " + last_error);
    // The service reports on the whole job, so only one process queries it.
    const auto ras = is_first_process ? ras_address(process_environment) : std::nullopt;
    if (ras)
      for (const std::string& line : query_ras(*ras)) sentences.push_back("NCCL's RAS service: " + line);
    return sentences;
  }
  std::vector<std::string> warnings() const override {
    std::vector<std::pair<std::string, std::string>> pairs;
    std::map<int, std::string> bus_ids;
    for (const Gpu& gpu : gpus_) bus_ids.emplace(gpu.number, gpu.bus_id);
    for (const auto& [first, second] : pairs_without_access_)
      if (bus_ids.contains(first) && bus_ids.contains(second)) pairs.emplace_back(bus_ids[first], bus_ids[second]);
    const char* const p2p_disable = std::getenv("NCCL_P2P_DISABLE");
    const auto warning =
        config_.ranks.count > 1 ? peer_access_warning(pairs, p2p_disable ? p2p_disable : "") : std::nullopt;
    std::vector<std::string> warnings;
    if (warning) warnings.push_back(*warning);
    if (launches_block())
      warnings.emplace_back(
          "CUDA_LAUNCH_BLOCKING is set: every launch waits until its work has ended, so times include this wait, and "
          "device times of short operations are not measured; unset it to measure without the wait");
    return warnings;
  }
  void reserve(int, std::size_t buffer_bytes) override { buffer_bytes_ = buffer_bytes; }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override {
    const int index = world.rank() - config_.first_rank;
    NcclRankConfig rank_config = rank_config_of(world);
    rank_config.gate_enabled = !is_true_on_any_rank(world, launches_block());
    rank_config.launch_group = launch_groups_.at(static_cast<std::size_t>(index / config_.gpus_per_thread)).get();
    rank_config.group_index = index % config_.gpus_per_thread;
    check_cuda(cudaSetDevice(rank_config.device.index), make_rank_text(world.rank(), rank_config.device.bus_id),
               "choosing the GPU");
    return std::make_unique<NcclCommunicator>(library_, world, group, rank_config);
  }
  std::unique_ptr<Communicator> connect_further(Team& world, Team& group, Communicator& first, int) override {
    NcclRankConfig rank_config = rank_config_of(world);
    rank_config.gate_enabled = false;  // it waits for the first communicator, which has the gate
    rank_config.first = &static_cast<NcclCommunicator&>(first);
    return std::make_unique<NcclCommunicator>(library_, world, group, rank_config);
  }
  std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team& world) override {
    const Device own = device(world.rank() - config_.first_rank);
    std::string rank_text = make_rank_text(world.rank(), own.bus_id);
    check_cuda(cudaSetDevice(own.index), rank_text, "choosing the GPU");
    return make_nccl_lifecycle(library_, config_.flags, world, std::move(rank_text), live_communicators_,
                               buffer_bytes_);
  }
  std::string lifecycle_function(CreationKind kind, LifecycleCall call) const override {
    return nccl_lifecycle_function(kind, call, static_cast<bool>(library_.call.comm_init_rank_scalable));
  }
  std::string missing_lifecycle_call(CreationKind kind, LifecycleCall call) const override {
    return missing_nccl_lifecycle_call(kind, call, library_.name_text(),
                                       [&](const char* function) { return library_.find(function) != nullptr; });
  }

 private:
  /// Throws EnvironmentError if the library or the environment does not support a flag.
  void require_flags() const {
    const std::string unmet =
        unmet_requirement(flag_requirements(config_.flags, NCCL_VERSION_CODE), library_.version, library_.path,
                          [&](const char* function) { return library_.find(function) != nullptr; });
    if (!unmet.empty()) throw EnvironmentError(unmet);
    const std::string disabled = disabled_by_environment(config_.flags, process_environment);
    if (!disabled.empty()) throw EnvironmentError(disabled);
  }

  /// Settings that all communicators of this rank have in common.
  NcclRankConfig rank_config_of(const Team& world) {
    const int index = world.rank() - config_.first_rank;
    NcclRankConfig rank_config;
    rank_config.device = device(index);
    rank_config.buffer_bytes = buffer_bytes_;
    rank_config.flags = config_.flags;
    rank_config.null_stream = config_.null_stream;
    rank_config.is_single_machine = world.size() == config_.ranks.count;
    rank_config.live_communicators = &live_communicators_;
    rank_config.algorithm_observer = algorithm_observer_.get();
    rank_config.nvml = nvml_.gpu(rank_config.device.bus_id);
    return rank_config;
  }

  NcclBackendConfig config_;
  std::unique_ptr<AlgorithmObserver> algorithm_observer_;  // null: algorithms stay unknown
  std::vector<Gpu> gpus_;  // of the local ranks, in their order
  std::vector<std::pair<int, int>> pairs_without_access_;
  std::vector<std::future<std::optional<std::size_t>>> free_memory_queries_;
  NcclLibrary library_;
  std::shared_future<std::optional<std::string>> library_hash_;
  LiveCommunicators live_communicators_;
  Nvml nvml_;  // loaded at the first use, so that no fork inherits it
  std::vector<std::unique_ptr<LaunchGroup>> launch_groups_;  // one for each -t thread of this process and its forks
  std::size_t buffer_bytes_ = 0;
};

}  // namespace

std::string nccl_headers() { return nccl_version_text(NCCL_VERSION_CODE); }

std::unique_ptr<Backend> make_nccl_backend(const NcclBackendConfig& config, const GpuSurvey& survey) {
  if (survey.gpus.empty()) throw EnvironmentError("--backend nccl: " + survey.no_gpu_reason);
  return std::make_unique<NcclBackend>(config, survey);
}

}  // namespace busbw
