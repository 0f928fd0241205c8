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

/// Queues calls and their checks. `calls` has at most one call of each communicator, because a verifier has memory for
/// the inputs of one call.
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
  } catch (const std::exception& error) {  // no memory for the inputs; the group must be ended nevertheless
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

/// An event recorded in a stream.
class StreamEvent {
 public:
  explicit StreamEvent(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
    const cudaError_t error = cudaEventRecord(event_, stream);
    if (error != cudaSuccess) cudaEventDestroy(event_);
    check(error, "recording an event");
  }
  ~StreamEvent() { cudaEventDestroy(event_); }  // CUDA frees it after the event has completed
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;
  void before(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Joins the streams of each communicator, as NCCL does for the calls of a group: later work on any of these streams
/// waits for the work that is already queued on all of them. Covers communicators with fast-path calls in the group.
/// `only_mixed`: covers only communicators that also have delegated calls.
void join_streams(const std::vector<StreamUse>& used, bool only_mixed = false) {
  struct Streams {
    int device = -1;
    bool has_delegated = false;
    std::vector<cudaStream_t> all;
  };
  std::map<ncclComm_t, Streams> by_communicator;
  for (const StreamUse& one : used) {
    Streams& streams = by_communicator[one.communicator];
    streams.device = std::max(streams.device, one.device);
    streams.has_delegated = streams.has_delegated || one.is_delegated;
    streams.all.push_back(one.stream);
  }
  for (const auto& [communicator, streams] : by_communicator) {
    if (streams.device < 0 || streams.all.size() < 2 || (only_mixed && !streams.has_delegated)) continue;
    const ScopedDevice device(streams.device);
    std::list<StreamEvent> now;
    for (const cudaStream_t stream : streams.all) now.emplace_back(stream);
    for (const StreamEvent& moment : now)
      for (const cudaStream_t stream : streams.all) moment.before(stream);
  }
}

/// Reorders calls: the first call of each GPU, then the second of each GPU, and so on. A GPU's queue of pending kernels
/// is limited, and its first kernel may wait for a kernel of another GPU that is not yet queued.
std::vector<PendingCall> interleave_by_device(const std::vector<PendingCall>& calls) {
  std::map<int, std::size_t> calls_on_device;
  std::vector<std::pair<std::size_t, const PendingCall*>> turns;
  for (const PendingCall& pending : calls)
    turns.emplace_back(calls_on_device[pending.fast->clique->device()]++, &pending);
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PendingCall> result;
  for (const auto& [turn, pending] : turns) result.push_back(*pending);
  return result;
}

/// Sorts calls by communicator id, so that all ranks launch in the same order, as NCCL does in a group. Calls of one
/// communicator keep their order.
void sort_by_communicator(std::vector<PendingCall>& calls) noexcept {
  const auto is_before = [](const PendingCall& a, const PendingCall& b) {
    return a.fast->clique->id() < b.fast->clique->id();
  };
  if (!std::is_sorted(calls.begin(), calls.end(), is_before)) std::stable_sort(calls.begin(), calls.end(), is_before);
}

/// Queues the fast-path calls of a group after NCCL has launched the delegated calls. `group_streams` is empty if no
/// communicator uses several streams.
ncclResult_t queue_group(const std::vector<PendingCall>& calls, const std::vector<StreamUse>& group_streams,
                         const RealNccl& nccl) noexcept try {
  if (calls.empty()) return ncclSuccess;
  // NCCL's kernels and ours must start in the same order on all GPUs, also on different streams. Otherwise they can
  // deadlock if a GPU has no room for both.
  join_streams(group_streams, true);
  const ncclResult_t result = queue(calls, nccl);
  if (result == ncclSuccess) join_streams(group_streams);
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
  // In reverse order, because most calls use the stream of the previous call.
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
  const auto group_streams = has_several_streams_ ? std::exchange(used_, {}) : std::vector<StreamUse>();
  forget_streams();
  auto pending = std::exchange(pending_, {});
  sort_by_communicator(pending);
  auto joining = std::exchange(joining_, {});
  auto registered = std::exchange(registered_, {});
  const auto finalized = std::exchange(finalized_, {});
  // ncclInProgress: the group has a non-blocking communicator. The pending fast-path calls must still be queued. New
  // communicators and windows are not ready yet, so they get no fast path.
  const bool is_in_progress = result == ncclInProgress;
  if (is_in_progress) {
    joining.clear();
    registered.clear();
    result = ncclSuccess;
  }
  if (result != ncclSuccess) return result;
  if (!joining.empty()) {
    std::vector<ncclComm_t> communicators;
    for (const ncclComm_t* one : joining)
      if (*one != nullptr) communicators.push_back(*one);
    result = CommunicatorRegistry::instance().add(communicators, nccl);
  }
  for (const WindowRegistration& registration : registered)
    if (result == ncclSuccess) result = record_window(registration, nccl);
  if (result == ncclSuccess) result = queue_group(pending, group_streams, nccl);
  for (const auto& fast : finalized)
    if (result == ncclSuccess) result = fast->finish();
  return result == ncclSuccess && is_in_progress ? ncclInProgress : result;
}

ncclResult_t record_window(const WindowRegistration& registration, const RealNccl& nccl) noexcept try {
  FastCommunicator* fast = CommunicatorRegistry::instance().find(registration.communicator);
  if (fast == nullptr || *registration.window == nullptr) return ncclSuccess;  // null: NCCL has created no window
  CliqueRank& clique = *fast->clique;
  const ScopedDevice device(clique.device());
  const ScopedRelaxedCapture relaxed_capture;
  const auto addresses = window_addresses(registration.communicator, *registration.window, clique.ranks(), nccl);
  if (!addresses) {
    log().log_message("a symmetric window is not used, because NCCL reports no address of it on each rank");
    return ncclSuccess;
  }
  Window window{*registration.window, static_cast<char*>(registration.buffer), registration.bytes, *addresses};
  window.of_rank[static_cast<std::size_t>(clique.rank())] = window.own;
  clique.windows().add(window);
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t queue(const PendingCall& call) noexcept try {
  const cudaError_t error = call.fast->clique->enqueue(call.call, call.config, call.stream);
  if (error == cudaSuccess) return ncclSuccess;
  print_stderr("libbusbw_nccl.so", fmt::format("rank {}: cannot queue {}: {}", call.fast->clique->rank(),
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
