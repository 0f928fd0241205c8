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

bool is_verified(const PendingCall& pending) {
  return pending.fast->verifier && pending.fast->clique->verifies(pending.call.collective);
}

/// At most one call of each communicator: a verifier has room for the inputs of one.
ncclResult_t queue_verified(const std::vector<PendingCall>& calls, const RealNccl& nccl) {
  for (const PendingCall& pending : calls)
    if (is_verified(pending) && (pending.fast->clique->begin_ordered(pending.stream) != cudaSuccess ||
                                 pending.fast->verifier->begin(pending.stream) != cudaSuccess))
      return ncclUnhandledCudaError;
  ncclResult_t result = nccl.group_start();
  try {
    for (const PendingCall& pending : calls)
      if (result == ncclSuccess && is_verified(pending))
        result = pending.fast->verifier->gather(nccl, pending.call, pending.stream);
  } catch (const std::exception& error) {  // no memory for the inputs; the group has to end all the same
    print_stderr("libbusbw_nccl.so", error.what());
    result = ncclUnhandledCudaError;
  }
  if (const ncclResult_t ended = nccl.group_end(); result == ncclSuccess) result = ended;
  for (const PendingCall& pending : calls) {
    if (result == ncclSuccess) result = queue(pending);
    if (result == ncclSuccess && is_verified(pending) &&
        (pending.fast->verifier->check(pending.call, pending.stream) != cudaSuccess ||
         pending.fast->clique->end_ordered(pending.stream) != cudaSuccess))
      result = ncclUnhandledCudaError;
  }
  return result;
}

/// A moment in a stream.
class StreamEvent {
 public:
  explicit StreamEvent(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
    const cudaError_t error = cudaEventRecord(event_, stream);
    if (error != cudaSuccess) cudaEventDestroy(event_);
    check(error, "recording an event");
  }
  ~StreamEvent() { cudaEventDestroy(event_); }  // once it has come
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;
  void before(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// As NCCL joins the streams of a communicator's calls in a group: what comes later in one of them comes after what was
/// queued by now in all of them. Of communicators that have calls done here; where it is between NCCL's calls and
/// these, of those that have both.
void join_streams(const std::vector<StreamUse>& used, bool between = false) {
  struct Streams {
    int device = -1;
    bool has_handed_over = false;
    std::vector<cudaStream_t> all;
  };
  std::map<ncclComm_t, Streams> of;
  for (const StreamUse& one : used) {
    Streams& streams = of[one.communicator];
    streams.device = std::max(streams.device, one.device);
    streams.has_handed_over = streams.has_handed_over || one.is_handed_over;
    streams.all.push_back(one.stream);
  }
  for (const auto& [communicator, streams] : of) {
    if (streams.device < 0 || streams.all.size() < 2 || (between && !streams.has_handed_over)) continue;
    const ScopedDevice device(streams.device);
    std::list<StreamEvent> now;
    for (const cudaStream_t stream : streams.all) now.emplace_back(stream);
    for (const StreamEvent& moment : now)
      for (const cudaStream_t stream : streams.all) moment.before(stream);
  }
}

/// The first call of each GPU, then the second of each, and so on: a GPU takes only so many kernels that it has not
/// begun, and the first of them may wait for a kernel of the GPU whose turn comes after all of these.
std::vector<PendingCall> interleave_by_device(const std::vector<PendingCall>& calls) {
  std::map<int, std::size_t> seen;
  std::vector<std::pair<std::size_t, const PendingCall*>> turns;
  for (const PendingCall& pending : calls) turns.emplace_back(seen[pending.fast->clique->device()]++, &pending);
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PendingCall> result;
  for (const auto& [turn, pending] : turns) result.push_back(*pending);
  return result;
}

/// Communicators in an order that all their ranks share, as NCCL sorts those of a group; calls of each in their own.
void sort_by_communicator(std::vector<PendingCall>& calls) noexcept {
  const auto is_before = [](const PendingCall& a, const PendingCall& b) { return a.fast->clique->id() < b.fast->clique->id(); };
  if (!std::is_sorted(calls.begin(), calls.end(), is_before)) std::stable_sort(calls.begin(), calls.end(), is_before);
}

/// Behind what NCCL has launched of the group, which has these streams where a communicator has several.
ncclResult_t queue_group(const std::vector<PendingCall>& calls, const std::vector<StreamUse>& several,
                         const RealNccl& nccl) noexcept try {
  if (calls.empty()) return ncclSuccess;
  // On other streams as on its own: on some GPUs the one might start first, on others the other, and where there is no
  // room for both neither would end.
  join_streams(several, true);
  const ncclResult_t result = queue(calls, nccl);
  if (result == ncclSuccess) join_streams(several);
  return result;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace

constinit thread_local int CallGroup::depth_ = 0;

CallGroup& CallGroup::of_thread() {
  static thread_local CallGroup group;
  return group;
}

void CallGroup::discard() {
  if (depth_ > 0) --depth_;
  if (depth_ > 0) return;
  pending_.clear();
  forget_streams();
  joining_.clear();
  registered_.clear();
  finalized_.clear();
}

StreamUse& CallGroup::use(ncclComm_t communicator, cudaStream_t stream) {
  // From behind: most calls are on the stream of the one before.
  for (auto one = used_.rbegin(); one != used_.rend(); ++one) {
    if (one->communicator != communicator) continue;
    if (one->stream == stream) return *one;
    has_several_streams_ = true;
  }
  return used_.emplace_back(StreamUse{communicator, stream});
}

void CallGroup::forget_streams() noexcept {
  used_.clear();
  has_several_streams_ = false;
}

ncclResult_t CallGroup::before_end() noexcept try {
  if (depth_ == 1 && has_several_streams_ && !pending_.empty()) join_streams(used_);
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t CallGroup::end(ncclResult_t result, const RealNccl& nccl) noexcept {
  if (depth_ > 0) --depth_;
  if (depth_ > 0) return result;
  const auto several = has_several_streams_ ? std::exchange(used_, {}) : std::vector<StreamUse>();
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
    result = CommunicatorRegistry::instance().joined(communicators, nccl);
  }
  for (const WindowRegistration& registration : registered)
    if (result == ncclSuccess) result = record_window(registration, nccl);
  if (result == ncclSuccess) result = queue_group(pending, several, nccl);
  for (const auto& fast : finalized)
    if (result == ncclSuccess) result = fast->finish();
  return result == ncclSuccess && goes_on ? ncclInProgress : result;
}

ncclResult_t record_window(const WindowRegistration& registration, const RealNccl& nccl) noexcept try {
  FastCommunicator* fast = CommunicatorRegistry::instance().find(registration.communicator);
  if (fast == nullptr || *registration.window == nullptr) return ncclSuccess;  // null: NCCL makes no windows here
  CliqueRank& clique = *fast->clique;
  const ScopedDevice device(clique.device());
  const ScopedRelaxedCapture amid;
  const auto places = window_addresses(registration.communicator, *registration.window, clique.ranks(), nccl);
  if (!places) {
    log().log_message("a symmetric window is not used, since NCCL does not tell where it lies at each rank");
    return ncclSuccess;
  }
  Window window{*registration.window, static_cast<char*>(registration.buffer), registration.bytes, *places};
  window.of_rank[static_cast<std::size_t>(clique.rank())] = window.own;
  clique.windows().add(window);
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t queue(const PendingCall& call) noexcept try {
  const cudaError_t error = call.fast->clique->enqueue(call.call, call.choice, call.stream);
  if (error == cudaSuccess) return ncclSuccess;
  print_stderr("libbusbw_nccl.so", fmt::format("rank {}: {} could not be queued: {}", call.fast->clique->rank(),
                                           name(call.call.collective), cudaGetErrorString(error)));
  return ncclUnhandledCudaError;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclUnhandledCudaError;
}

ncclResult_t queue(const std::vector<PendingCall>& calls, const RealNccl& nccl) noexcept try {
  if (std::none_of(calls.begin(), calls.end(), is_verified)) {
    for (const PendingCall& pending : interleave_by_device(calls))
      if (const ncclResult_t result = queue(pending); result != ncclSuccess) return result;
    return ncclSuccess;
  }
  std::vector<PendingCall> left = calls;
  while (!left.empty()) {
    std::vector<PendingCall> now;
    std::vector<PendingCall> later;
    for (const PendingCall& pending : left) {
      const bool waits =
          std::any_of(now.begin(), now.end(), [&](const PendingCall& one) { return one.fast == pending.fast; });
      (waits ? later : now).push_back(pending);
    }
    if (const ncclResult_t result = queue_verified(now, nccl); result != ncclSuccess) return result;
    left = std::move(later);
  }
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace busbw::fastpath
