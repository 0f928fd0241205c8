// Queues the fast-path calls of a group in an order that cannot deadlock with NCCL's kernels or with other ranks.
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
  return pending.fast_communicator->verifier && pending.fast_communicator->clique->verifies(pending.call.collective);
}

/// Queues the gathers of the inputs of all verified calls, in one group of NCCL.
ncclResult_t queue_gathers(const std::vector<PendingCall>& calls, const RealNccl& nccl) {
  ncclResult_t result = nccl.group_start();
  try {
    for (const PendingCall& pending : calls)
      if (result == ncclSuccess && is_verified(pending))
        result = pending.fast_communicator->verifier->queue_gather(nccl, pending.call, pending.stream);
  } catch (const std::exception& error) {  // no memory for the inputs; the group must be ended nevertheless
    print_stderr("libbusbw_nccl.so", error.what());
    result = ncclUnhandledCudaError;
  }
  const ncclResult_t ended = nccl.group_end();
  return result == ncclSuccess ? ended : result;
}

/// Queues calls and the checks of their results. `calls` has at most one call of each communicator, because a verifier
/// has memory for the inputs of one call. A verified call is one unit in the order of its communicator's operations,
/// together with its gather and its check. After an error, units that have begun are not ended: the group then fails.
ncclResult_t queue_verified_calls(const std::vector<PendingCall>& calls, const RealNccl& nccl) {
  for (const PendingCall& pending : calls) {
    if (!is_verified(pending)) continue;
    const FastCommunicator& fast = *pending.fast_communicator;
    if (fast.clique->begin_ordered_unit(pending.stream) != cudaSuccess ||
        fast.verifier->queue_wait_for_previous_check(pending.stream) != cudaSuccess)
      return ncclUnhandledCudaError;
  }
  ncclResult_t result = queue_gathers(calls, nccl);
  for (const PendingCall& pending : calls) {
    if (result == ncclSuccess) result = queue_call(pending);
    if (result != ncclSuccess || !is_verified(pending)) continue;
    const FastCommunicator& fast = *pending.fast_communicator;
    if (fast.verifier->queue_check(pending.call, pending.stream) != cudaSuccess ||
        fast.clique->end_ordered_unit(pending.stream) != cudaSuccess)
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
  /// Makes later work on `stream` wait for the event.
  void make_wait(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Selects communicators of a group for join_streams(), by their calls in the group.
enum class JoinedCommunicators { with_fast_calls, with_fast_and_delegated_calls };

/// Joins the streams of each of the `joined` communicators, as NCCL does at the start and the end of a group. Work that
/// is queued later on any stream of a communicator then waits for the work that is already queued on all its streams.
void join_streams(const std::vector<StreamUse>& stream_uses, JoinedCommunicators joined) {
  struct Streams {
    int device = -1;  // of the fast-path calls; -1 if the communicator has none
    bool has_delegated = false;
    std::vector<cudaStream_t> all;
  };
  std::map<ncclComm_t, Streams> by_communicator;
  for (const StreamUse& use : stream_uses) {
    Streams& streams = by_communicator[use.communicator];
    streams.device = std::max(streams.device, use.device);
    streams.has_delegated = streams.has_delegated || use.is_delegated;
    streams.all.push_back(use.stream);
  }
  for (const auto& [communicator, streams] : by_communicator) {
    const bool has_fast_calls = streams.device >= 0;
    const bool is_joined = has_fast_calls && (streams.has_delegated || joined == JoinedCommunicators::with_fast_calls);
    if (!is_joined || streams.all.size() < 2) continue;
    const ScopedDevice device(streams.device);
    std::list<StreamEvent> events;
    for (const cudaStream_t stream : streams.all) events.emplace_back(stream);
    for (const StreamEvent& event : events)
      for (const cudaStream_t stream : streams.all) event.make_wait(stream);
  }
}

/// Reorders calls: the first call of each GPU, then the second call of each GPU, and so on. Calls a1 a2 b1 b2 of GPUs a
/// and b become a1 b1 a2 b2. If all calls of one GPU came first, they could fill that GPU's limited queue and block
/// this thread. The queue's first kernel would then wait for a kernel of another GPU, which this thread has not
/// launched.
std::vector<PendingCall> interleave_by_device(const std::vector<PendingCall>& calls) {
  std::map<int, std::size_t> device_call_counts;
  std::vector<std::pair<std::size_t, const PendingCall*>> calls_with_position;  // position among the calls of the GPU
  for (const PendingCall& pending : calls)
    calls_with_position.emplace_back(device_call_counts[pending.fast_communicator->clique->device()]++, &pending);
  std::stable_sort(calls_with_position.begin(), calls_with_position.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PendingCall> result;
  for (const auto& [position, pending] : calls_with_position) result.push_back(*pending);
  return result;
}

/// Sorts calls by communicator id, so that all ranks launch in the same order, as NCCL does in a group. Calls of one
/// communicator keep their order.
void sort_by_communicator(std::vector<PendingCall>& calls) noexcept {
  const auto is_before = [](const PendingCall& a, const PendingCall& b) {
    return a.fast_communicator->clique->id() < b.fast_communicator->clique->id();
  };
  if (!std::is_sorted(calls.begin(), calls.end(), is_before)) std::stable_sort(calls.begin(), calls.end(), is_before);
}

/// Sets up the fast paths of communicators that NCCL created in a group. A handle is null if this rank takes no part in
/// a split.
ncclResult_t add_created(const std::vector<ncclComm_t*>& handles, const RealNccl& nccl) {
  std::vector<ncclComm_t> communicators;
  for (const ncclComm_t* handle : handles)
    if (*handle != nullptr) communicators.push_back(*handle);
  return CommunicatorRegistry::instance().add(communicators, nccl);
}

/// Queues the fast-path calls of a group after NCCL has launched the delegated calls. `group_streams` is empty if no
/// communicator uses several streams.
ncclResult_t queue_group_calls(const std::vector<PendingCall>& calls, const std::vector<StreamUse>& group_streams,
                               const RealNccl& nccl) noexcept try {
  if (calls.empty()) return ncclSuccess;
  // Kernels of NCCL and of the fast path must start in the same order on all GPUs, also on different streams. Otherwise
  // they can deadlock if a GPU has no room for both. A communicator without delegated calls has no kernel of NCCL in
  // the group.
  join_streams(group_streams, JoinedCommunicators::with_fast_and_delegated_calls);
  const ncclResult_t result = queue_calls(calls, nccl);
  // The end of the group: later work on a communicator's streams waits for all its calls in the group.
  if (result == ncclSuccess) join_streams(group_streams, JoinedCommunicators::with_fast_calls);
  return result;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace

constinit thread_local int CallGroup::nesting_depth_ = 0;

CallGroup& CallGroup::of_this_thread() {
  static thread_local CallGroup group;
  return group;
}

void CallGroup::discard() {
  if (nesting_depth_ > 0) --nesting_depth_;
  if (nesting_depth_ > 0) return;
  pending_calls_.clear();
  clear_streams();
  new_communicators_.clear();
  window_registrations_.clear();
  finalized_communicators_.clear();
}

StreamUse& CallGroup::find_or_add_stream(ncclComm_t communicator, cudaStream_t stream) {
  // In reverse order, because most calls use the stream of the previous call.
  for (auto use = stream_uses_.rbegin(); use != stream_uses_.rend(); ++use) {
    if (use->communicator != communicator) continue;
    if (use->stream == stream) return *use;
    has_several_streams_ = true;
  }
  return stream_uses_.emplace_back(StreamUse{communicator, stream});
}

void CallGroup::clear_streams() noexcept {
  stream_uses_.clear();
  has_several_streams_ = false;
}

ncclResult_t CallGroup::prepare_end() noexcept try {
  if (nesting_depth_ == 1 && has_several_streams_ && !pending_calls_.empty())
    join_streams(stream_uses_, JoinedCommunicators::with_fast_calls);
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t CallGroup::end(ncclResult_t nccl_result, const RealNccl& nccl) noexcept {
  if (nesting_depth_ > 0) --nesting_depth_;
  if (nesting_depth_ > 0) return nccl_result;
  // Takes the contents first, so that the next group starts empty also after an early return.
  const auto group_streams = has_several_streams_ ? std::exchange(stream_uses_, {}) : std::vector<StreamUse>();
  clear_streams();
  auto pending_calls = std::exchange(pending_calls_, {});
  sort_by_communicator(pending_calls);
  auto new_communicators = std::exchange(new_communicators_, {});
  auto window_registrations = std::exchange(window_registrations_, {});
  const auto finalized_communicators = std::exchange(finalized_communicators_, {});
  // ncclInProgress: the group has a non-blocking communicator. The pending fast-path calls must still be queued. New
  // communicators and windows are not ready yet, so they get no fast path.
  const bool is_in_progress = nccl_result == ncclInProgress;
  if (nccl_result != ncclSuccess && !is_in_progress) return nccl_result;
  if (is_in_progress) {
    new_communicators.clear();
    window_registrations.clear();
  }
  ncclResult_t result = ncclSuccess;
  if (!new_communicators.empty()) result = add_created(new_communicators, nccl);
  for (const WindowRegistration& registration : window_registrations)
    if (result == ncclSuccess) result = record_window(registration, nccl);
  if (result == ncclSuccess) result = queue_group_calls(pending_calls, group_streams, nccl);
  for (const auto& fast_communicator : finalized_communicators)
    if (result == ncclSuccess) result = fast_communicator->finish();
  return result == ncclSuccess ? nccl_result : result;
}

ncclResult_t record_window(const WindowRegistration& registration, const RealNccl& nccl) noexcept try {
  FastCommunicator* fast = CommunicatorRegistry::instance().find(registration.communicator);
  if (fast == nullptr || *registration.window == nullptr) return ncclSuccess;  // null: NCCL has created no window
  CliqueRank& clique = *fast->clique;
  const ScopedDevice device(clique.device());
  const ScopedRelaxedCapture relaxed_capture;  // window_addresses() copies memory and waits, perhaps during a capture
  const auto addresses = window_addresses(registration.communicator, *registration.window, clique.ranks(), nccl);
  if (!addresses) {
    log().log_message("a symmetric window is not used, because NCCL reports no address of it on each rank");
    return ncclSuccess;
  }
  Window window{*registration.window, static_cast<char*>(registration.buffer), registration.bytes, *addresses};
  // NCCL maps this rank's own buffer a second time. Use the program's address, as the call itself does.
  window.rank_addresses[static_cast<std::size_t>(clique.rank())] = window.own;
  clique.windows().add(window);
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

ncclResult_t queue_call(const PendingCall& pending) noexcept try {
  CliqueRank& clique = *pending.fast_communicator->clique;
  const cudaError_t error = clique.enqueue(pending.call, pending.config, pending.stream);
  if (error == cudaSuccess) return ncclSuccess;
  print_stderr("libbusbw_nccl.so", fmt::format("rank {}: cannot queue {}: {}", clique.rank(),
                                               name(pending.call.collective), cudaGetErrorString(error)));
  return ncclUnhandledCudaError;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclUnhandledCudaError;
}

ncclResult_t queue_calls(const std::vector<PendingCall>& calls, const RealNccl& nccl) noexcept try {
  if (std::none_of(calls.begin(), calls.end(), is_verified)) {
    for (const PendingCall& pending : interleave_by_device(calls))
      if (const ncclResult_t result = queue_call(pending); result != ncclSuccess) return result;
    return ncclSuccess;
  }
  // Each pass queues the first remaining call of every communicator.
  std::vector<PendingCall> remaining = calls;
  while (!remaining.empty()) {
    std::vector<PendingCall> first_calls;
    std::vector<PendingCall> later_calls;
    for (const PendingCall& pending : remaining) {
      const bool is_later = std::any_of(first_calls.begin(), first_calls.end(), [&](const PendingCall& first) {
        return first.fast_communicator == pending.fast_communicator;
      });
      std::vector<PendingCall>& destination = is_later ? later_calls : first_calls;
      destination.push_back(pending);
    }
    if (const ncclResult_t result = queue_verified_calls(first_calls, nccl); result != ncclSuccess) return result;
    remaining = std::move(later_calls);
  }
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace busbw::fastpath
