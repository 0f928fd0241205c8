#pragma once
// Interface between the engine and the profiler plugin, which NCCL loads into the engine's process: the plugin passes
// NCCL's choices for collectives to an observer. Engine and plugin are built from one source tree.

namespace busbw {

/// A collective that NCCL has enqueued. Texts are static.
struct EnqueuedCollective {
  const void* recv = nullptr;       // receive buffer of the call
  const char* algorithm = nullptr;  // "RING"; null: unknown
  const char* protocol = nullptr;   // "LL128"; null: unknown
  int channels = 0;                 // 0: unknown
};

/// Receiver of NCCL's choices. The engine implements it, and the plugin calls it.
class CollectiveObserver {
 public:
  /// Any thread that calls NCCL may call this function, during the call of NCCL or at the end of the call's group.
  virtual void on_collective(const EnqueuedCollective&) noexcept = 0;

 protected:
  ~CollectiveObserver() = default;
};

/// Function of the plugin that sets the observer of the process. Null ends the observation, but a thread may still be
/// in a call of the old observer. Without an observer NCCL reports no events, unless the plugin records a trace. The
/// recording alone then selects the events.
inline constexpr const char* kSetCollectiveObserver = "busbw_set_collective_observer";
using SetCollectiveObserver = void(CollectiveObserver*);

}  // namespace busbw
