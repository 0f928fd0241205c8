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
    // Without random numbers it stays all zero, and ranks of other processes look like this one's: no fast path then.
    if (getrandom(random.data(), sizeof random, 0) != static_cast<ssize_t>(sizeof random)) random = {};
    return random;
  }();
  return id;
}

/// Where a communicator's tags begin, so that memory which is used again never sees a tag that it has seen before: a
/// rank that aborted the communicator before may still write into it. Room is left for 2^62 steps.
std::uint64_t new_tags() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return 0;
  return random >> 2;
}

/// Of a meeting, in each of which everybody's facts go to everybody.
constexpr int kRounds = 3;

/// One rank at the meeting.
class RankSetup {
 public:
  RankSetup(ncclComm_t communicator, const SetupContext& company) : communicator_(communicator), company_(company) {
    check(company.nccl.comm_user_rank(communicator, &rank_), "rank");
    check(company.nccl.comm_count(communicator, &ranks_), "ranks");
    check(company.nccl.comm_cu_device(communicator, &device_), "GPU");
  }

  bool is_small() const { return ranks_ >= 2 && ranks_ <= kMaxRanks; }
  int ranks() const { return ranks_; }

  /// Memory and a stream for the gathering.
  void prepare() {
    const ScopedDevice device(device_);
    stream_ = std::make_unique<NonBlockingStream>();
    place_ = company_.places.take();
  }

  /// Where a gathering failed NCCL may still write: that memory is nobody's any more.
  ~RankSetup() {
    if (!place_.empty() && !is_gathering_) company_.places.put_back(place_);
  }
  RankSetup(const RankSetup&) = delete;
  RankSetup& operator=(const RankSetup&) = delete;

  /// First round: who I am. What I had open of others' memory is closed where they may free it in the second.
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
    choices_ = company_.choices(own_.capability_major, properties.multiProcessorCount);
    own_.choices = choices_->hash();
    share_ = company_.budget.reserve(device_, [this](std::size_t left_bytes) {
      own_.cells = cells_that_fit(left_bytes, ranks_, &Scratch::bytes_for);
      return own_.cells > 0 ? Scratch::bytes_for(ranks_, own_.cells) : 0;
    });
    if (own_.cells > 0 && choices_->selects_any(ranks_))
      company_.pool.prepare(device_, Scratch::bytes_for(ranks_, own_.cells));
    if (own_.process == std::array<std::uint64_t, 2>{}) own_.host = {};
  }

  /// Second round: where my memory is.
  void agree_on_size() {
    if (refuse(fastpath::refusal_reason(all_))) return;
    if (!choices_->selects_any(ranks_)) {
      refuse(
          fmt::format("neither the table in force nor BUSBW_FASTPATH... variables have anything done for {} ranks on "
                      "these GPUs; busbw fastpath tune makes a table",
                      ranks_));
      return;
    }
    attempt([this] {
      if (!are_linked(all_, rank_, device_, company_.hidden_gpus)) return;  // nor is it ready then
      const int cells = common_cells(all_);
      share_.shrink_to(Scratch::bytes_for(ranks_, cells));
      scratch_ = std::make_unique<Scratch>(ranks_, cells, all_.front().tags_begin, company_.pool);
      scratch_->describe(own_);
      preload(ranks_);
    });
  }

  /// Third round: whether I reach everybody's.
  void reach() {
    if (!refusal_.empty() || refuse(not_ready_message(all_))) return;
    own_.is_ready = 0;
    attempt([this] {
      scratch_->reach(all_, rank_);
      if (choices_->verifies_any()) verifier_ = std::make_unique<Verifier>(communicator_, rank_, ranks_, device_);
      own_.is_ready = 1;
    });
  }

  SetupResult result() {
    SetupResult met;
    if (!refusal_.empty() || refuse(not_ready_message(all_))) {
      met.why_not = error_.empty() ? refusal_ : refusal_ + " (" + error_ + ")";
      return met;
    }
    met.verifier = std::move(verifier_);
    met.clique = std::make_shared<CliqueRank>(rank_, ranks_, device_, std::move(share_), std::move(scratch_), choices_);
    return met;
  }

  /// Queues the gathering of everybody's facts.
  ncclResult_t send() {
    RankCapabilities& own = place_[static_cast<std::size_t>(rank_)];
    own = own_;
    is_gathering_ = true;
    return company_.nccl.all_gather(&own, place_.data(), sizeof(RankCapabilities), ncclUint8, communicator_, stream_->get());
  }

  void receive() {
    const ScopedDevice device(device_);
    fastpath::check(cudaStreamSynchronize(stream_->get()), "waiting for what was gathered");
    is_gathering_ = false;
    all_.assign(place_.begin(), place_.begin() + ranks_);
  }

 private:
  static void check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess) throw EnvironmentError(std::string("NCCL does not tell the communicator's ") + what);
  }

  bool refuse(std::string why) {
    refusal_ = std::move(why);
    return !refusal_.empty();
  }

  /// A failure is told to the others in the next round; nobody leaves before.
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
  const SetupContext& company_;
  int rank_ = 0;
  int ranks_ = 0;
  int device_ = 0;
  std::unique_ptr<NonBlockingStream> stream_;
  std::span<RankCapabilities> place_;  // where NCCL gathers
  bool is_gathering_ = false;
  RankCapabilities own_;
  std::vector<RankCapabilities> all_;
  std::shared_ptr<const MethodSelector> choices_;
  ScratchBudget::Reservation share_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Verifier> verifier_;
  std::string refusal_;
  std::string error_;
};

using RankSetups = std::vector<std::unique_ptr<RankSetup>>;

/// Calls `send` for each of these, which gather in one group.
template <class Several, class Send>
void gather_as_group(const Several& several, const RealNccl& nccl, Send send) {
  ncclResult_t result = nccl.group_start();
  for (const auto& one : several)
    if (result == ncclSuccess) result = send(one);
  const ncclResult_t ended = nccl.group_end();
  if (result == ncclSuccess) result = ended;
  if (result != ncclSuccess) throw EnvironmentError("NCCL could not gather what ranks say of themselves");
}

/// Everybody's facts to everybody.
void gather(const RankSetups& members, const RealNccl& nccl) {
  gather_as_group(members, nccl, [](const auto& member) { return member->send(); });
  for (const auto& member : members) member->receive();
}

/// Why CUDA does not run in this process, in this library's version of it: a driver that is too old for it, above all.
/// NCCL may have another that runs. Empty where it runs.
std::string why_no_cuda() {
  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const auto text = [](int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); };
  if (error == cudaErrorInsufficientDriver && driver > 0)
    return fmt::format("the driver is made for CUDA {} and this library with CUDA {}", text(driver),
                       text(CUDART_VERSION));
  return fmt::format("CUDA does not start: {}", cudaGetErrorString(error));
}

/// Comes to the meetings of these communicators where CUDA does not run here, so that their other ranks, on hosts where
/// it does, hear of it and do not wait. Throws EnvironmentError where NCCL lacks what that takes.
void refuse_on_all(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) {
  struct Place {
    ncclComm_t communicator;
    char* memory;
    char* own;
  };
  const auto check = [](ncclResult_t result) {
    if (result != ncclSuccess) throw EnvironmentError("NCCL could not tell the other ranks that there is no fast path");
  };
  std::vector<Place> places;
  for (const ncclComm_t communicator : communicators) {
    int ranks = 0, rank = 0;
    check(nccl.comm_count(communicator, &ranks));
    if (ranks < 2 || ranks > kMaxRanks) continue;
    check(nccl.comm_user_rank(communicator, &rank));
    // Nothing is written into it, and what has no layout is refused. It stays: nobody here can wait for the gathering.
    void* memory = nullptr;
    check(nccl.mem_alloc == nullptr ? ncclInvalidUsage : nccl.mem_alloc(&memory, sizeof(RankCapabilities) * kMaxRanks));
    auto* const all = static_cast<char*>(memory);
    places.push_back({communicator, all, all + sizeof(RankCapabilities) * static_cast<std::size_t>(rank)});
  }
  if (places.empty()) return;
  for (int round = 0; round < kRounds; ++round)
    gather_as_group(places, nccl, [&](const Place& at) {
      return nccl.all_gather(at.own, at.memory, sizeof(RankCapabilities), ncclUint8, at.communicator, nullptr);
    });
}

}  // namespace

std::vector<SetupResult> set_up_cliques(const std::vector<ncclComm_t>& communicators, const SetupContext& company) {
  std::vector<SetupResult> results(communicators.size());
  if (const std::string why = why_no_cuda(); !why.empty()) {
    refuse_on_all(communicators, company.nccl);
    for (SetupResult& met : results) met.why_not = why;
    return results;
  }
  const ScopedRelaxedCapture amid;
  RankSetups members;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    auto member = std::make_unique<RankSetup>(communicators[i], company);
    if (!member->is_small()) {
      results[i].why_not = fmt::format("it has {} ranks, and from 2 to {} can have one", member->ranks(), kMaxRanks);
      continue;
    }
    member->prepare();
    members.push_back(std::move(member));
    places.push_back(i);
  }
  if (members.empty()) return results;
  for (const auto& member : members) member->publish_capabilities();
  gather(members, company.nccl);
  for (const auto& member : members) member->agree_on_size();
  gather(members, company.nccl);
  for (const auto& member : members) member->reach();
  gather(members, company.nccl);
  static_assert(kRounds == 3, "decline() comes to as many");
  for (std::size_t m = 0; m < members.size(); ++m) results[places[m]] = members[m]->result();
  return results;
}

}  // namespace busbw::fastpath
