#pragma once
// Between ncclGroupStart and ncclGroupEnd a thread's calls wait: what joined and what is to be queued, until the
// outermost group ends.
#include <nccl.h>

#include <memory>
#include <utility>
#include <vector>

#include "fastpath/communicator/communicator_registry.hpp"

namespace busbw::fastpath {

/// A call that the fast path will do.
struct PendingCall {
  ncclComm_t communicator;
  std::shared_ptr<FastCommunicator> fast;
  CollectiveCall call;
  MethodConfig choice;
  cudaStream_t stream;
};

/// A program's window, which is there once the call, or its group, has ended.
struct WindowRegistration {
  ncclComm_t communicator;
  void* buffer;
  std::size_t bytes;
  ncclWindow_t* window;
};

/// Lets the communicator's fast path know of a window, if it has one.
ncclResult_t record_window(const WindowRegistration& registration, const RealNccl& nccl) noexcept;

/// A stream that a communicator's calls of a group are on.
struct StreamUse {
  ncclComm_t communicator;
  cudaStream_t stream;
  int device = -1;               ///< of the communicator; -1: none of these calls is done here
  bool is_handed_over = false;  ///< one of them is
};

/// This thread's group.
class CallGroup {
 public:
  static CallGroup& of_thread();

  /// Of this thread: what most calls ask, and no more.
  static bool is_open() { return depth_ > 0; }
  static void start() { ++depth_; }
  /// The real library's end of the group comes next: the outermost one's work comes behind what was queued on any
  /// stream of a communicator that has calls here.
  ncclResult_t before_end() noexcept;
  /// The real library's end of a group has said `result`: the outermost end does what waited, if that was no failure.
  ncclResult_t end(ncclResult_t result, const RealNccl& nccl) noexcept;

  /// The group ends and what waited in it is not done.
  void discard();

  void add(const PendingCall& pending) {
    pending_.push_back(pending);
    use(pending.communicator, pending.stream).device = pending.fast->clique->device();
  }
  /// A call that is handed over.
  void add(ncclComm_t communicator, cudaStream_t stream) { use(communicator, stream).is_handed_over = true; }
  /// A communicator will be there once the group has ended.
  void add(ncclComm_t* communicator) { joining_.push_back(communicator); }
  void add(const WindowRegistration& registration) { registered_.push_back(registration); }
  /// A communicator that is finalized when the group ends.
  void add(std::shared_ptr<FastCommunicator> finalized) { finalized_.push_back(std::move(finalized)); }

 private:
  StreamUse& use(ncclComm_t communicator, cudaStream_t stream);
  void forget_streams() noexcept;

  static constinit thread_local int depth_;

  std::vector<PendingCall> pending_;
  std::vector<StreamUse> used_;
  bool has_several_streams_ = false;  // some communicator has
  std::vector<ncclComm_t*> joining_;
  std::vector<WindowRegistration> registered_;
  std::vector<std::shared_ptr<FastCommunicator>> finalized_;
};

/// Queues one call; a failure is said on stderr, since NCCL's own sentences don't know of it.
ncclResult_t queue(const PendingCall& call) noexcept;

/// Queues calls, each GPU's in this order, and their checks where that is asked for.
ncclResult_t queue(const std::vector<PendingCall>& calls, const RealNccl& nccl) noexcept;

}  // namespace busbw::fastpath
