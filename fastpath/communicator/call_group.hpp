#pragma once
// Calls of a thread between ncclGroupStart and ncclGroupEnd. They are processed at the end of the outermost group.
#include <nccl.h>

#include <memory>
#include <utility>
#include <vector>

#include "fastpath/communicator/communicator_registry.hpp"

namespace busbw::fastpath {

/// A call that the fast path will run.
struct PendingCall {
  ncclComm_t communicator;
  std::shared_ptr<FastCommunicator> fast;
  CollectiveCall call;
  MethodConfig config;
  cudaStream_t stream;
};

/// A window that the program registers. `*window` is valid after the call, or its group, has ended.
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

/// The open group of a thread.
class CallGroup {
 public:
  static CallGroup& of_thread();

  /// True if this thread has an open group. Does not create the thread's CallGroup, so it is cheap.
  static bool is_open() { return depth_ > 0; }
  static void start() { ++depth_; }
  /// Call before the real ncclGroupEnd. At the end of the outermost group, makes its work wait for earlier work on all
  /// streams of each communicator with fast-path calls.
  ncclResult_t before_end() noexcept;
  /// Call after the real ncclGroupEnd, with its result. The outermost end processes the pending calls, unless NCCL's
  /// group has failed.
  ncclResult_t end(ncclResult_t result, const RealNccl& nccl) noexcept;

  /// Ends the group without its pending calls.
  void discard();

  void add(const PendingCall& pending) {
    pending_.push_back(pending);
    use(pending.communicator, pending.stream).device = pending.fast->clique->device();
  }
  /// Adds a call that is delegated to NCCL.
  void add(ncclComm_t communicator, cudaStream_t stream) { use(communicator, stream).is_delegated = true; }
  /// Adds a communicator that NCCL creates at the end of the group.
  void add(ncclComm_t* communicator) { joining_.push_back(communicator); }
  void add(const WindowRegistration& registration) { registered_.push_back(registration); }
  /// Adds a communicator that is finalized at the end of the group.
  void add(std::shared_ptr<FastCommunicator> finalized) { finalized_.push_back(std::move(finalized)); }

 private:
  StreamUse& use(ncclComm_t communicator, cudaStream_t stream);
  void forget_streams() noexcept;

  static constinit thread_local int depth_;

  std::vector<PendingCall> pending_;
  std::vector<StreamUse> used_;
  bool has_several_streams_ = false;  // true if at least one communicator uses several streams
  std::vector<ncclComm_t*> joining_;
  std::vector<WindowRegistration> registered_;
  std::vector<std::shared_ptr<FastCommunicator>> finalized_;
};

/// Queues one call. Prints a failure to stderr, because ncclGetLastError does not report it.
ncclResult_t queue(const PendingCall& call) noexcept;

/// Queues calls, and their checks if requested. The calls of each GPU keep their order.
ncclResult_t queue(const std::vector<PendingCall>& calls, const RealNccl& nccl) noexcept;

}  // namespace busbw::fastpath
