#pragma once
// Calls of a thread between ncclGroupStart and ncclGroupEnd. The real ncclGroupEnd launches the kernels of NCCL's own
// calls. The fast path keeps its calls until then, and queues them after NCCL's kernels.
#include <nccl.h>

#include <memory>
#include <utility>
#include <vector>

#include "fastpath/communicator/communicator_registry.hpp"

namespace busbw::fastpath {

/// A call that the fast path will run.
struct PendingCall {
  ncclComm_t communicator;
  std::shared_ptr<FastCommunicator> fast_communicator;  ///< fast path of `communicator`
  CollectiveCall call;
  MethodConfig config;
  cudaStream_t stream;
};

/// A symmetric window that the program registers. NCCL writes `*window` in the call or at the end of the call's group.
struct WindowRegistration {
  ncclComm_t communicator;
  void* buffer;
  std::size_t bytes;
  ncclWindow_t* window;
};

/// Records a window for the fast path of its communicator. Does nothing if the communicator has no fast path.
ncclResult_t record_window(const WindowRegistration& registration, const RealNccl& nccl) noexcept;

/// A stream with calls of one communicator in a group.
struct StreamUse {
  ncclComm_t communicator;
  cudaStream_t stream;
  int device = -1;            ///< the communicator's device; -1: the stream has no fast-path call
  bool is_delegated = false;  ///< the stream has a call that is delegated to NCCL
};

/// The open group of a thread. Nested groups count as one group that ends with the outermost ncclGroupEnd.
class CallGroup {
 public:
  /// Returns the calling thread's object.
  static CallGroup& of_this_thread();

  /// True if this thread has an open group. Does not create the thread's CallGroup, so it is cheap.
  static bool is_open() { return nesting_depth_ > 0; }
  static void start() { ++nesting_depth_; }
  /// Call before the real ncclGroupEnd. At the end of the outermost group, joins the streams of each communicator with
  /// fast-path calls. The group's work on one of these streams then waits for the earlier work on all of them.
  ncclResult_t prepare_end() noexcept;
  /// Call after the real ncclGroupEnd, with its result. The outermost end processes the pending calls, unless NCCL's
  /// group has failed. Returns the result for the program.
  ncclResult_t end(ncclResult_t nccl_result, const RealNccl& nccl) noexcept;

  /// Ends a group that is only simulated (ncclGroupSimulateEnd). At the end of the outermost group, drops all pending
  /// calls, communicators and windows.
  void discard();

  void add_fast_call(const PendingCall& pending) {
    pending_calls_.push_back(pending);
    find_or_add_stream(pending.communicator, pending.stream).device = pending.fast_communicator->clique->device();
  }
  void add_delegated_call(ncclComm_t communicator, cudaStream_t stream) {
    find_or_add_stream(communicator, stream).is_delegated = true;
  }
  /// Adds a communicator that NCCL creates at the end of the group.
  void add_new_communicator(ncclComm_t* communicator) { new_communicators_.push_back(communicator); }
  void add_window(const WindowRegistration& registration) { window_registrations_.push_back(registration); }
  /// Adds a communicator that is finalized at the end of the group.
  void add_finalized(std::shared_ptr<FastCommunicator> communicator) {
    finalized_communicators_.push_back(std::move(communicator));
  }

 private:
  StreamUse& find_or_add_stream(ncclComm_t communicator, cudaStream_t stream);
  void clear_streams() noexcept;

  static constinit thread_local int nesting_depth_;  // number of open ncclGroupStart calls

  std::vector<PendingCall> pending_calls_;
  std::vector<StreamUse> stream_uses_;
  bool has_several_streams_ = false;  // true if at least one communicator uses several streams
  std::vector<ncclComm_t*> new_communicators_;
  std::vector<WindowRegistration> window_registrations_;
  std::vector<std::shared_ptr<FastCommunicator>> finalized_communicators_;
};

/// Queues one call. Prints a failure to stderr, because ncclGetLastError does not report it.
ncclResult_t queue_call(const PendingCall& pending) noexcept;

/// Queues calls, and the checks of their results if BUSBW_FASTPATH=verify. The calls of each GPU keep their order.
ncclResult_t queue_calls(const std::vector<PendingCall>& calls, const RealNccl& nccl) noexcept;

}  // namespace busbw::fastpath
