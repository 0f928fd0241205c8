// Runs the three rounds of the setup (clique_setup.hpp) for every rank of this thread, and cleans up after failures.
#include "fastpath/communicator/clique_setup.hpp"

#include <sys/random.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <span>
#include <utility>

#include "common/os/environment.hpp"
#include "common/support/fnv1a.hpp"
#include "fastpath/choice/settings.hpp"
#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// Returns the boot id of this host as two hashes. All zero if it cannot be read.
std::array<std::uint64_t, 2> read_boot_id() {
  std::array<std::uint64_t, 2> id{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (std::getline(file, text) && !text.empty())
    id = {fnv1a(text), fnv1a(text + "again")};  // "again": for another hash of the same text
  return id;
}

/// Returns a random id of this process, the same in every call.
std::array<std::uint64_t, 2> random_process_id() {
  static const auto id = [] {
    std::array<std::uint64_t, 2> random{};
    // Without random numbers the id stays all zero. Such a rank publishes no host either, so it gets no fast path.
    if (getrandom(random.data(), sizeof random, 0) != static_cast<ssize_t>(sizeof random)) random = {};
    return random;
  }();
  return id;
}

/// Returns the random number from which a communicator counts its tags. Reused memory then contains no tag that the new
/// communicator expects, although a rank of an aborted communicator may still write into it. Its two highest bits are
/// 0, so that the tags do not overflow. Returns 0 if the system has no random numbers.
std::uint64_t random_tags_begin() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return 0;
  return random >> 2;
}

/// Number of gathers in the setup of a communicator. Each one gathers the capabilities of all ranks on every rank.
constexpr int kGatherRounds = 3;

/// Setup of one rank. A rank is refused if it gets no fast path. A refused rank still takes part in all gathers,
/// because its peers wait for it.
class RankSetup {
 public:
  RankSetup(ncclComm_t communicator, const SetupContext& context) : communicator_(communicator), context_(context) {
    require_property(context.nccl.comm_user_rank(communicator, &rank_), "rank");
    require_property(context.nccl.comm_count(communicator, &ranks_), "ranks");
    require_property(context.nccl.comm_cu_device(communicator, &device_), "GPU");
  }

  bool has_supported_size() const { return ranks_ >= 2 && ranks_ <= kMaxRanks; }
  int ranks() const { return ranks_; }

  /// Allocates the buffer and the stream for the gathers.
  void prepare_gathers() {
    const ScopedDevice device(device_);
    stream_ = std::make_unique<NonBlockingStream>();
    gather_buffer_ = context_.gather_buffers.take();
  }

  /// After a failed gather NCCL may still write into the buffer, so the buffer is not reused.
  ~RankSetup() {
    if (!gather_buffer_.empty() && !is_gathering_) context_.gather_buffers.put_back(gather_buffer_);
  }
  RankSetup(const RankSetup&) = delete;
  RankSetup& operator=(const RankSetup&) = delete;

  /// First round: fills in this rank's capabilities. Closes unused memory of other processes, because they may free
  /// it in the second round.
  void publish_capabilities() {
    const ScopedDevice device(device_);
    cudaDeviceProp properties{};
    own_capabilities_.layout_version = kLayoutVersion;
    if (cudaGetDeviceProperties(&properties, device_) == cudaSuccess) {
      std::memcpy(own_capabilities_.gpu.data(), properties.name,
                  strnlen(properties.name, own_capabilities_.gpu.size() - 1));
      own_capabilities_.capability_major = properties.major;
    }
    cudaDeviceGetPCIBusId(own_capabilities_.bus_id.data(), static_cast<int>(own_capabilities_.bus_id.size()), device_);
    own_capabilities_.host = read_boot_id();
    own_capabilities_.process = random_process_id();
    own_capabilities_.tags_begin = random_tags_begin();
    own_capabilities_.needs_nccl = requires_real_nccl(process_environment) ? 1 : 0;
    selector_ = context_.selector_for(own_capabilities_.capability_major, properties.multiProcessorCount);
    own_capabilities_.selector_hash = selector_->hash();
    reservation_ = context_.budget.reserve(device_, [this](std::size_t unreserved_bytes) {
      own_capabilities_.cells = cells_that_fit(unreserved_bytes, ranks_, &Scratch::bytes_for);
      return own_capabilities_.cells > 0 ? Scratch::bytes_for(ranks_, own_capabilities_.cells) : 0;
    });
    if (own_capabilities_.cells > 0 && selector_->may_use_fast_path(ranks_))
      context_.pool.prepare(device_, Scratch::bytes_for(ranks_, own_capabilities_.cells));
    const bool has_process_id = own_capabilities_.process != std::array<std::uint64_t, 2>{};
    if (!has_process_id) own_capabilities_.host = {};
  }

  /// Second round: allocates memory of the common size and fills in its address.
  void allocate_scratch() {
    if (set_refusal(refusal_reason(all_capabilities_))) return;  // true if there is a reason
    if (!selector_->may_use_fast_path(ranks_)) {
      set_refusal(
          fmt::format("the table and the BUSBW_FASTPATH variables leave every call of {} ranks on these GPUs to NCCL; "
                      "create a table with busbw fastpath tune",
                      ranks_));
      return;
    }
    run_and_store_error([this] {
      if (!are_linked(all_capabilities_, rank_, device_, context_.nvml)) return;  // is_ready stays 0
      const int cells = common_cells(all_capabilities_);
      reservation_.shrink_to(Scratch::bytes_for(ranks_, cells));
      scratch_ = std::make_unique<Scratch>(ranks_, cells, all_capabilities_.front().tags_begin, context_.pool);
      scratch_->describe_memory(own_capabilities_);
      preload_kernels(ranks_);
    });
  }

  /// Third round: opens the memory of all peers and fills in whether that worked.
  void open_peers() {
    if (!refusal_.empty() || set_refusal(not_ready_message(all_capabilities_))) return;
    own_capabilities_.is_ready = 0;
    run_and_store_error([this] {
      scratch_->open_peers(all_capabilities_, rank_);
      if (selector_->verifies_any()) verifier_ = std::make_unique<Verifier>(communicator_, rank_, ranks_, device_);
      own_capabilities_.is_ready = 1;
    });
  }

  /// Returns the result after the third round. Call it once.
  SetupResult take_result() {
    SetupResult result;
    if (!refusal_.empty() || set_refusal(not_ready_message(all_capabilities_))) {
      result.refusal = error_.empty() ? refusal_ : refusal_ + " (" + error_ + ")";
      return result;
    }
    result.verifier = std::move(verifier_);
    result.clique =
        std::make_shared<CliqueRank>(rank_, ranks_, device_, std::move(reservation_), std::move(scratch_), selector_);
    return result;
  }

  /// Queues the gather of all ranks' capabilities.
  ncclResult_t queue_gather() {
    RankCapabilities& own = gather_buffer_[static_cast<std::size_t>(rank_)];
    own = own_capabilities_;
    is_gathering_ = true;
    return context_.nccl.all_gather(&own, gather_buffer_.data(), sizeof(RankCapabilities), ncclUint8, communicator_,
                                    stream_->get());
  }

  /// Waits for the gather and copies its result.
  void wait_for_gather() {
    const ScopedDevice device(device_);
    check(cudaStreamSynchronize(stream_->get()), "waiting for the gathered capabilities");
    is_gathering_ = false;
    all_capabilities_.assign(gather_buffer_.begin(), gather_buffer_.begin() + ranks_);
  }

 private:
  /// Throws EnvironmentError if NCCL did not report a property of the communicator.
  static void require_property(ncclResult_t result, const char* property) {
    if (result != ncclSuccess)
      throw EnvironmentError(std::string("NCCL does not report the communicator's ") + property);
  }

  /// Stores the reason of a refusal, or an empty text for no refusal. Returns true if the rank is refused.
  bool set_refusal(std::string reason) {
    refusal_ = std::move(reason);
    return !refusal_.empty();
  }

  /// Runs `action`. If it fails, stores the error and clears `is_ready`, which the next gather reports to all ranks.
  template <class Action>
  void run_and_store_error(Action action) {
    const ScopedDevice device(device_);
    try {
      action();
    } catch (const std::exception& error) {
      own_capabilities_.is_ready = 0;
      error_ = error.what();
    }
  }

  ncclComm_t communicator_;
  const SetupContext& context_;
  int rank_ = 0;
  int ranks_ = 0;
  int device_ = 0;
  std::unique_ptr<NonBlockingStream> stream_;
  std::span<RankCapabilities> gather_buffer_;
  bool is_gathering_ = false;
  RankCapabilities own_capabilities_;
  std::vector<RankCapabilities> all_capabilities_;  // by rank, from the most recent round
  std::shared_ptr<const MethodSelector> selector_;
  ScratchBudget::Reservation reservation_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Verifier> verifier_;
  std::string refusal_;  // the same on every rank; empty: none
  std::string error_;    // of this rank's own setup, for the log; empty: none
};

using RankSetups = std::vector<std::unique_ptr<RankSetup>>;

/// Calls `queue_gather` for each rank of this thread, in one NCCL group. Throws EnvironmentError.
template <class Ranks, class QueueGather>
void gather_as_group(const Ranks& ranks, const RealNccl& nccl, QueueGather queue_gather) {
  ncclResult_t result = nccl.group_start();
  for (const auto& rank : ranks)
    if (result == ncclSuccess) result = queue_gather(rank);
  const ncclResult_t ended = nccl.group_end();
  if (result == ncclSuccess) result = ended;
  if (result != ncclSuccess) throw EnvironmentError("NCCL cannot gather the ranks' capabilities");
}

/// Gathers the capabilities of all ranks on all ranks.
void gather_capabilities(const RankSetups& setups, const RealNccl& nccl) {
  gather_as_group(setups, nccl, [](const auto& setup) { return setup->queue_gather(); });
  for (const auto& setup : setups) setup->wait_for_gather();
}

/// Returns the reason why this library's CUDA runtime does not work in this process, mostly a driver that is too old.
/// NCCL may contain another CUDA runtime that works. Empty if the runtime works.
std::string cuda_error_text() {
  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const auto version_text = [](int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); };
  if (error == cudaErrorInsufficientDriver && driver > 0)
    return fmt::format("the driver supports CUDA {}, but this library needs CUDA {}", version_text(driver),
                       version_text(CUDART_VERSION));
  return fmt::format("CUDA cannot be initialized: {}", cudaGetErrorString(error));
}

/// Takes part in the gathers of these communicators although CUDA does not work here. The other ranks then learn that
/// there is no fast path and do not wait. Throws EnvironmentError if NCCL lacks a function for this.
void report_refusal_to_peers(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) {
  struct RefusalBuffers {
    ncclComm_t communicator;
    char* all_ranks;
    char* own_rank;
  };
  const auto require_success = [](ncclResult_t result) {
    if (result != ncclSuccess) throw EnvironmentError("NCCL cannot inform the other ranks that there is no fast path");
  };
  std::vector<RefusalBuffers> buffers;
  for (const ncclComm_t communicator : communicators) {
    int ranks = 0, rank = 0;
    require_success(nccl.comm_count(communicator, &ranks));
    if (ranks < 2 || ranks > kMaxRanks) continue;
    require_success(nccl.comm_user_rank(communicator, &rank));
    // The memory stays without a valid layout version, so the other ranks refuse. It is never freed, because this
    // process cannot wait for the gathers.
    void* memory = nullptr;
    require_success(nccl.mem_alloc == nullptr ? ncclInvalidUsage
                                              : nccl.mem_alloc(&memory, sizeof(RankCapabilities) * kMaxRanks));
    auto* const all_ranks = static_cast<char*>(memory);
    buffers.push_back({communicator, all_ranks, all_ranks + sizeof(RankCapabilities) * static_cast<std::size_t>(rank)});
  }
  if (buffers.empty()) return;
  for (int round = 0; round < kGatherRounds; ++round)
    gather_as_group(buffers, nccl, [&](const RefusalBuffers& rank) {
      return nccl.all_gather(rank.own_rank, rank.all_ranks, sizeof(RankCapabilities), ncclUint8, rank.communicator,
                             nullptr);
    });
}

}  // namespace

std::vector<SetupResult> set_up_cliques(const std::vector<ncclComm_t>& communicators, const SetupContext& context) {
  std::vector<SetupResult> results(communicators.size());
  if (const std::string reason = cuda_error_text(); !reason.empty()) {
    report_refusal_to_peers(communicators, context.nccl);
    for (SetupResult& result : results) result.refusal = reason;
    return results;
  }
  const ScopedRelaxedCapture relaxed_capture;
  RankSetups setups;
  std::vector<std::size_t> result_indexes;  // by setup: its index in `results`
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    auto setup = std::make_unique<RankSetup>(communicators[i], context);
    if (!setup->has_supported_size()) {
      results[i].refusal =
          fmt::format("it has {} ranks, and the fast path supports 2 to {}", setup->ranks(), kMaxRanks);
      continue;
    }
    setup->prepare_gathers();
    setups.push_back(std::move(setup));
    result_indexes.push_back(i);
  }
  if (setups.empty()) return results;
  for (const auto& setup : setups) setup->publish_capabilities();
  gather_capabilities(setups, context.nccl);
  for (const auto& setup : setups) setup->allocate_scratch();
  gather_capabilities(setups, context.nccl);
  for (const auto& setup : setups) setup->open_peers();
  gather_capabilities(setups, context.nccl);
  static_assert(kGatherRounds == 3, "report_refusal_to_peers() must run as many rounds");
  for (std::size_t i = 0; i < setups.size(); ++i) results[result_indexes[i]] = setups[i]->take_result();
  return results;
}

}  // namespace busbw::fastpath
