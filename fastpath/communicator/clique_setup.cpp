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

std::array<std::uint64_t, 2> this_boot() {
  std::array<std::uint64_t, 2> id{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (std::getline(file, text) && !text.empty()) id = {fnv1a(text), fnv1a(text + "again")};
  return id;
}

std::array<std::uint64_t, 2> this_process() {
  static const auto id = [] {
    std::array<std::uint64_t, 2> random{};
    // Without random numbers the id stays all zero and cannot distinguish processes. The rank then gets no fast path.
    if (getrandom(random.data(), sizeof random, 0) != static_cast<ssize_t>(sizeof random)) random = {};
    return random;
  }();
  return id;
}

/// Returns the random first tag of a communicator. Reused memory then never contains a tag from before, although a rank
/// of an aborted communicator may still write into it. The value leaves room for 2^62 steps.
std::uint64_t new_tags() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return 0;
  return random >> 2;
}

/// Number of gathers in the setup of a communicator. Each gathers the capabilities of all ranks on all ranks.
constexpr int kGatherRounds = 3;

/// Setup of one rank.
class RankSetup {
 public:
  RankSetup(ncclComm_t communicator, const SetupContext& context) : communicator_(communicator), context_(context) {
    check(context.nccl.comm_user_rank(communicator, &rank_), "rank");
    check(context.nccl.comm_count(communicator, &ranks_), "ranks");
    check(context.nccl.comm_cu_device(communicator, &device_), "GPU");
  }

  bool is_small() const { return ranks_ >= 2 && ranks_ <= kMaxRanks; }
  int ranks() const { return ranks_; }

  /// Allocates the buffer and the stream for the gathers.
  void prepare() {
    const ScopedDevice device(device_);
    stream_ = std::make_unique<NonBlockingStream>();
    gather_buffer_ = context_.places.take();
  }

  /// After a failed gather NCCL may still write into the buffer, so the buffer is not reused.
  ~RankSetup() {
    if (!gather_buffer_.empty() && !is_gathering_) context_.places.put_back(gather_buffer_);
  }
  RankSetup(const RankSetup&) = delete;
  RankSetup& operator=(const RankSetup&) = delete;

  /// First round: fills in this rank's capabilities. Closes unused memory of other processes, because they may free
  /// it in the second round.
  void publish_capabilities() {
    const ScopedDevice device(device_);
    cudaDeviceProp properties{};
    own_.layout = kLayout;
    if (cudaGetDeviceProperties(&properties, device_) == cudaSuccess) {
      std::memcpy(own_.gpu.data(), properties.name, strnlen(properties.name, own_.gpu.size() - 1));
      own_.capability_major = properties.major;
    }
    cudaDeviceGetPCIBusId(own_.bus_id.data(), static_cast<int>(own_.bus_id.size()), device_);
    own_.host = this_boot();
    own_.process = this_process();
    own_.tags_begin = new_tags();
    own_.needs_nccl = requires_real_nccl(process_environment) ? 1 : 0;
    selector_ = context_.selector_for(own_.capability_major, properties.multiProcessorCount);
    own_.selector_hash = selector_->hash();
    reservation_ = context_.budget.reserve(device_, [this](std::size_t left_bytes) {
      own_.cells = cells_that_fit(left_bytes, ranks_, &Scratch::bytes_for);
      return own_.cells > 0 ? Scratch::bytes_for(ranks_, own_.cells) : 0;
    });
    if (own_.cells > 0 && selector_->may_use_fast_path(ranks_))
      context_.pool.prepare(device_, Scratch::bytes_for(ranks_, own_.cells));
    if (own_.process == std::array<std::uint64_t, 2>{}) own_.host = {};
  }

  /// Second round: allocates memory of the common size and fills in its address.
  void agree_on_size() {
    if (refuse(fastpath::refusal_reason(all_))) return;
    if (!selector_->may_use_fast_path(ranks_)) {
      refuse(
          fmt::format("the table and the BUSBW_FASTPATH variables leave every call of {} ranks on these GPUs to NCCL; "
                      "create a table with busbw fastpath tune",
                      ranks_));
      return;
    }
    attempt([this] {
      if (!are_linked(all_, rank_, device_, context_.hidden_gpus)) return;  // is_ready stays 0
      const int cells = common_cells(all_);
      reservation_.shrink_to(Scratch::bytes_for(ranks_, cells));
      scratch_ = std::make_unique<Scratch>(ranks_, cells, all_.front().tags_begin, context_.pool);
      scratch_->describe(own_);
      preload(ranks_);
    });
  }

  /// Third round: opens the memory of all peers and fills in whether that worked.
  void open_peers() {
    if (!refusal_.empty() || refuse(not_ready_message(all_))) return;
    own_.is_ready = 0;
    attempt([this] {
      scratch_->open_peers(all_, rank_);
      if (selector_->verifies_any()) verifier_ = std::make_unique<Verifier>(communicator_, rank_, ranks_, device_);
      own_.is_ready = 1;
    });
  }

  SetupResult result() {
    SetupResult outcome;
    if (!refusal_.empty() || refuse(not_ready_message(all_))) {
      outcome.refusal = error_.empty() ? refusal_ : refusal_ + " (" + error_ + ")";
      return outcome;
    }
    outcome.verifier = std::move(verifier_);
    outcome.clique =
        std::make_shared<CliqueRank>(rank_, ranks_, device_, std::move(reservation_), std::move(scratch_), selector_);
    return outcome;
  }

  /// Queues the gather of all ranks' capabilities.
  ncclResult_t send() {
    RankCapabilities& own = gather_buffer_[static_cast<std::size_t>(rank_)];
    own = own_;
    is_gathering_ = true;
    return context_.nccl.all_gather(&own, gather_buffer_.data(), sizeof(RankCapabilities), ncclUint8, communicator_,
                                    stream_->get());
  }

  void receive() {
    const ScopedDevice device(device_);
    fastpath::check(cudaStreamSynchronize(stream_->get()), "waiting for the gathered capabilities");
    is_gathering_ = false;
    all_.assign(gather_buffer_.begin(), gather_buffer_.begin() + ranks_);
  }

 private:
  static void check(ncclResult_t result, const char* property) {
    if (result != ncclSuccess)
      throw EnvironmentError(std::string("NCCL does not report the communicator's ") + property);
  }

  bool refuse(std::string reason) {
    refusal_ = std::move(reason);
    return !refusal_.empty();
  }

  /// Runs `action` and stores its failure. The rank stays in the setup, and the next round reports the failure to the
  /// other ranks.
  template <class Action>
  void attempt(Action action) {
    const ScopedDevice device(device_);
    try {
      action();
    } catch (const std::exception& error) {
      own_.is_ready = 0;
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
  RankCapabilities own_;
  std::vector<RankCapabilities> all_;
  std::shared_ptr<const MethodSelector> selector_;
  ScratchBudget::Reservation reservation_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Verifier> verifier_;
  std::string refusal_;
  std::string error_;
};

using RankSetups = std::vector<std::unique_ptr<RankSetup>>;

/// Calls `send` for each element, in one NCCL group.
template <class Several, class Send>
void gather_as_group(const Several& several, const RealNccl& nccl, Send send) {
  ncclResult_t result = nccl.group_start();
  for (const auto& one : several)
    if (result == ncclSuccess) result = send(one);
  const ncclResult_t ended = nccl.group_end();
  if (result == ncclSuccess) result = ended;
  if (result != ncclSuccess) throw EnvironmentError("NCCL cannot gather the ranks' capabilities");
}

/// Gathers the capabilities of all ranks on all ranks.
void gather(const RankSetups& setups, const RealNccl& nccl) {
  gather_as_group(setups, nccl, [](const auto& setup) { return setup->send(); });
  for (const auto& setup : setups) setup->receive();
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
  const auto text = [](int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); };
  if (error == cudaErrorInsufficientDriver && driver > 0)
    return fmt::format("the driver supports CUDA {}, but this library needs CUDA {}", text(driver),
                       text(CUDART_VERSION));
  return fmt::format("CUDA cannot be initialized: {}", cudaGetErrorString(error));
}

/// Takes part in the gathers of these communicators although CUDA does not work here. The other ranks then learn that
/// there is no fast path and do not wait. Throws EnvironmentError if NCCL lacks a function for this.
void refuse_on_all(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) {
  struct RefusalBuffers {
    ncclComm_t communicator;
    char* memory;
    char* own;
  };
  const auto check = [](ncclResult_t result) {
    if (result != ncclSuccess) throw EnvironmentError("NCCL cannot inform the other ranks that there is no fast path");
  };
  std::vector<RefusalBuffers> places;
  for (const ncclComm_t communicator : communicators) {
    int ranks = 0, rank = 0;
    check(nccl.comm_count(communicator, &ranks));
    if (ranks < 2 || ranks > kMaxRanks) continue;
    check(nccl.comm_user_rank(communicator, &rank));
    // The memory stays without a valid layout, so the other ranks refuse. It is never freed, because this process
    // cannot wait for the gathers.
    void* memory = nullptr;
    check(nccl.mem_alloc == nullptr ? ncclInvalidUsage : nccl.mem_alloc(&memory, sizeof(RankCapabilities) * kMaxRanks));
    auto* const all = static_cast<char*>(memory);
    places.push_back({communicator, all, all + sizeof(RankCapabilities) * static_cast<std::size_t>(rank)});
  }
  if (places.empty()) return;
  for (int round = 0; round < kGatherRounds; ++round)
    gather_as_group(places, nccl, [&](const RefusalBuffers& at) {
      return nccl.all_gather(at.own, at.memory, sizeof(RankCapabilities), ncclUint8, at.communicator, nullptr);
    });
}

}  // namespace

std::vector<SetupResult> set_up_cliques(const std::vector<ncclComm_t>& communicators, const SetupContext& context) {
  std::vector<SetupResult> results(communicators.size());
  if (const std::string reason = cuda_error_text(); !reason.empty()) {
    refuse_on_all(communicators, context.nccl);
    for (SetupResult& outcome : results) outcome.refusal = reason;
    return results;
  }
  const ScopedRelaxedCapture relaxed_capture;
  RankSetups setups;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    auto setup = std::make_unique<RankSetup>(communicators[i], context);
    if (!setup->is_small()) {
      results[i].refusal =
          fmt::format("it has {} ranks, and the fast path supports 2 to {}", setup->ranks(), kMaxRanks);
      continue;
    }
    setup->prepare();
    setups.push_back(std::move(setup));
    places.push_back(i);
  }
  if (setups.empty()) return results;
  for (const auto& setup : setups) setup->publish_capabilities();
  gather(setups, context.nccl);
  for (const auto& setup : setups) setup->agree_on_size();
  gather(setups, context.nccl);
  for (const auto& setup : setups) setup->open_peers();
  gather(setups, context.nccl);
  static_assert(kGatherRounds == 3, "refuse_on_all() must run as many rounds");
  for (std::size_t m = 0; m < setups.size(); ++m) results[places[m]] = setups[m]->result();
  return results;
}

}  // namespace busbw::fastpath
