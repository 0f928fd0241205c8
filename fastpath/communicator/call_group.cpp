#include "fastpath/communicator/call_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <list>
#include <map>
#include <utility>

#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"
#include "fastpath/device/cuda_check.hpp"
#include "fastpath/nccl/window_addresses.hpp"

namespace busbw::fastpath {
namespace {

bool is_verified(const Pending& pending) {
  return pending.fast->verifier && pending.fast->clique->verifies(pending.call.collective);
}

/// At most one call of each communicator: a verifier has room for the inputs of one.
ncclResult_t queue_verified(const std::vector<Pending>& calls, const RealNccl& nccl) {
  for (const Pending& pending : calls)
    if (is_verified(pending) && (pending.fast->clique->enter(pending.stream) != cudaSuccess ||
                                 pending.fast->verifier->begin(pending.stream) != cudaSuccess))
      return ncclUnhandledCudaError;
  ncclResult_t result = nccl.group_start();
  try {
    for (const Pending& pending : calls)
      if (result == ncclSuccess && is_verified(pending))
        result = pending.fast->verifier->gather(nccl, pending.call, pending.stream);
  } catch (const std::exception& error) {  // no memory for the inputs; the group has to end all the same
    complain("libbusbw_nccl.so", error.what());
    result = ncclUnhandledCudaError;
  }
  if (const ncclResult_t ended = nccl.group_end(); result == ncclSuccess) result = ended;
  for (const Pending& pending : calls) {
    if (result == ncclSuccess) result = queue(pending);
    if (result == ncclSuccess && is_verified(pending) &&
        (pending.fast->verifier->check(pending.call, pending.stream) != cudaSuccess ||
         pending.fast->clique->leave(pending.stream) != cudaSuccess))
      result = ncclUnhandledCudaError;
  }
  return result;
}

/// A moment in a stream.
class Moment {
 public:
  explicit Moment(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
    const cudaError_t error = cudaEventRecord(event_, stream);
    if (error != cudaSuccess) cudaEventDestroy(event_);
    check(error, "recording an event");
  }
  ~Moment() { cudaEventDestroy(event_); }  // once it has come
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  void before(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// As NCCL joins the streams of a communicator's calls in a group: what comes later in one of them comes after what was
/// queued by now in all of them. Of communicators that have calls done here; where it is between NCCL's calls and
/// these, of those that have both.
void join_streams(const std::vector<Used>& used, bool between = false) {
  struct Streams {
    int device = -1;
    bool has_handed_over = false;
    std::vector<cudaStream_t> all;
  };
  std::map<ncclComm_t, Streams> of;
  for (const Used& one : used) {
    Streams& streams = of[one.communicator];
    streams.device = std::max(streams.device, one.device);
    streams.has_handed_over = streams.has_handed_over || one.is_handed_over;
    streams.all.push_back(one.stream);
  }
  for (const auto& [communicator, streams] : of) {
    if (streams.device < 0 || streams.all.size() < 2 || (between && !streams.has_handed_over)) continue;
    const Device device(streams.device);
    std::list<Moment> now;
    for (const cudaStream_t stream : streams.all) now.emplace_back(stream);
    for (const Moment& moment : now)
      for (const cudaStream_t stream : streams.all) moment.before(stream);
  }
}

/// The first call of each GPU, then the second of each, and so on: a GPU takes only so many kernels that it has not
/// begun, and the first of them may wait for a kernel of the GPU whose turn comes after all of these.
std::vector<Pending> in_turns(const std::vector<Pending>& calls) {
  std::map<int, std::size_t> seen;
  std::vector<std::pair<std::size_t, const Pending*>> turns;
  for (const Pending& pending : calls) turns.emplace_back(seen[pending.fast->clique->device()]++, &pending);
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Pending> result;
  for (const auto& [turn, pending] : turns) result.push_back(*pending);
  return result;
}

/// Communicators in an order that all their ranks share, as NCCL sorts those of a group; calls of each in their own.
void sort_by_communicator(std::vector<Pending>& calls) noexcept {
  const auto is_before = [](const Pending& a, const Pending& b) { return a.fast->clique->id() < b.fast->clique->id(); };
  if (!std::is_sorted(calls.begin(), calls.end(), is_before)) std::stable_sort(calls.begin(), calls.end(), is_before);
}

/// Behind what NCCL has launched of the group, which has these streams where a communicator has several.
ncclResult_t queue_group(const std::vector<Pending>& calls, const std::vector<Used>& several,
                         const RealNccl& nccl) noexcept try {
  if (calls.empty()) return ncclSuccess;
  // On other streams as on its own: on some GPUs the one might start first, on others the other, and where there is no
  // room for both neither would end.
  join_streams(several, true);
  const ncclResult_t result = queue(calls, nccl);
  if (result == ncclSuccess) join_streams(several);
  return result;
} catch (const std::exception& error) {
  complain("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace

constinit thread_local int Group::depth_ = 0;

Group& Group::of_thread() {
  static thread_local Group group;
  return group;
}

void Group::give_up() {
  if (depth_ > 0) --depth_;
  if (depth_ > 0) return;
  pending_.clear();
  forget_streams();
  joining_.clear();
  registered_.clear();
  finalized_.clear();
}

Used& Group::use(ncclComm_t communicator, cudaStream_t stream) {
  // From behind: most calls are on the stream of the one before.
  for (auto one = used_.rbegin(); one != used_.rend(); ++one) {
    if (one->communicator != communicator) continue;
    if (one->stream == stream) return *one;
    has_several_streams_ = true;
  }
  return used_.emplace_back(Used{communicator, stream});
}

void Group::forget_streams() noexcept {
  used_.clear();
  has_several_streams_ = false;
}

ncclResult_t Group::before_end() noexcept try {
  if (depth_ == 1 && has_several_streams_ && !pending_.empty()) join_streams(used_);
  return ncclSuccess;
} catch (const std::exception& error) {
  complain("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t Group::end(ncclResult_t result, const RealNccl& nccl) noexcept {
  if (depth_ > 0) --depth_;
  if (depth_ > 0) return result;
  const auto several = has_several_streams_ ? std::exchange(used_, {}) : std::vector<Used>();
  forget_streams();
  auto pending = std::exchange(pending_, {});
  sort_by_communicator(pending);
  auto joining = std::exchange(joining_, {});
  auto registered = std::exchange(registered_, {});
  const auto finalized = std::exchange(finalized_, {});
  // A communicator that does not wait is among the group's: NCCL goes on with its own, and what waited here is still to
  // be done. What was joined or registered is not ready, and is left to NCCL.
  const bool goes_on = result == ncclInProgress;
  if (goes_on) {
    joining.clear();
    registered.clear();
    result = ncclSuccess;
  }
  if (result != ncclSuccess) return result;
  if (!joining.empty()) {
    std::vector<ncclComm_t> communicators;
    for (const ncclComm_t* one : joining)
      if (*one != nullptr) communicators.push_back(*one);
    result = Process::here().joined(communicators, nccl);
  }
  for (const Registration& registration : registered)
    if (result == ncclSuccess) result = note(registration, nccl);
  if (result == ncclSuccess) result = queue_group(pending, several, nccl);
  for (const auto& fast : finalized)
    if (result == ncclSuccess) result = fast->finish();
  return result == ncclSuccess && goes_on ? ncclInProgress : result;
}

ncclResult_t note(const Registration& registration, const RealNccl& nccl) noexcept try {
  Fast* fast = Process::here().find(registration.communicator);
  if (fast == nullptr || *registration.window == nullptr) return ncclSuccess;  // null: NCCL makes no windows here
  Clique& clique = *fast->clique;
  const Device device(clique.device());
  const AmidCaptures amid;
  const auto places = peers_of(registration.communicator, *registration.window, clique.ranks(), nccl);
  if (!places) {
    log().say("a symmetric window is not used, since NCCL does not tell where it lies at each rank");
    return ncclSuccess;
  }
  Window window{*registration.window, static_cast<char*>(registration.buffer), registration.bytes, *places};
  window.of_rank[static_cast<std::size_t>(clique.rank())] = window.own;
  clique.windows().add(window);
  return ncclSuccess;
} catch (const std::exception& error) {
  complain("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t queue(const Pending& call) noexcept try {
  const cudaError_t error = call.fast->clique->queue(call.call, call.choice, call.stream);
  if (error == cudaSuccess) return ncclSuccess;
  complain("libbusbw_nccl.so", fmt::format("rank {}: {} could not be queued: {}", call.fast->clique->rank(),
                                           name(call.call.collective), cudaGetErrorString(error)));
  return ncclUnhandledCudaError;
} catch (const std::exception& error) {
  complain("libbusbw_nccl.so", error.what());
  return ncclUnhandledCudaError;
}

ncclResult_t queue(const std::vector<Pending>& calls, const RealNccl& nccl) noexcept try {
  if (std::none_of(calls.begin(), calls.end(), is_verified)) {
    for (const Pending& pending : in_turns(calls))
      if (const ncclResult_t result = queue(pending); result != ncclSuccess) return result;
    return ncclSuccess;
  }
  std::vector<Pending> left = calls;
  while (!left.empty()) {
    std::vector<Pending> now;
    std::vector<Pending> later;
    for (const Pending& pending : left) {
      const bool waits =
          std::any_of(now.begin(), now.end(), [&](const Pending& one) { return one.fast == pending.fast; });
      (waits ? later : now).push_back(pending);
    }
    if (const ncclResult_t result = queue_verified(now, nccl); result != ncclSuccess) return result;
    left = std::move(later);
  }
  return ncclSuccess;
} catch (const std::exception& error) {
  complain("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace busbw::fastpath
