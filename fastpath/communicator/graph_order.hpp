#pragma once
// Orders the operations of a communicator within a captured graph, and graphs relative to calls outside of graphs.
// CliqueRank calls the begin and end functions around each kernel that it queues or captures.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>

namespace busbw::fastpath {

/// Order of the captured operations of one communicator, the same as with NCCL:
///
/// - The operations of one capture run one after another, on any streams.
/// - Graphs run in the order of their launches, on any streams. All graphs of the communicator share one event (order
///   event). Each graph waits for it before its first operation and records it after its last operation.
/// - After the first capture, calls outside of graphs wait for the order event and record it too.
/// - With NCCL_GRAPH_MIXING_SUPPORT=0 the program keeps this order itself, and graphs contain no event.
///
/// Used by one thread at a time.
class GraphOrder {
 public:
  GraphOrder() = default;
  ~GraphOrder();
  GraphOrder(const GraphOrder&) = delete;
  GraphOrder& operator=(const GraphOrder&) = delete;

  /// Call these before and after a call outside of graphs is queued on the stream.
  cudaError_t begin_call(cudaStream_t stream) const noexcept;
  cudaError_t end_call(cudaStream_t stream) const noexcept;

  /// Queues a wait on a stream, so that later work on the stream runs after all earlier calls outside of graphs.
  using QueueWaitForCalls = std::function<cudaError_t(cudaStream_t)>;

  /// Orders calls outside of graphs from now on, although nothing is captured yet. Throws EnvironmentError if CUDA
  /// cannot create an event.
  void start_ordering_calls(const QueueWaitForCalls& queue_wait_for_calls);

  /// Call this before an operation is captured on the stream. The graph then runs after all earlier calls. Throws
  /// EnvironmentError if CUDA cannot create an event.
  cudaError_t begin_captured(cudaStream_t stream, const QueueWaitForCalls& queue_wait_for_calls);
  /// Call this after the operation has been captured.
  cudaError_t end_captured(cudaStream_t stream);

  /// True if an operation was ever captured. Thread-safe.
  bool has_captures() const noexcept { return has_captures_.load(std::memory_order_acquire); }
  /// True if there are graphs without events, so that it is unknown whether one of them runs.
  bool has_unordered_graphs() const noexcept { return has_captures() && !are_graphs_ordered_.value_or(true); }
  /// Waits until the launched graphs and ordered calls have run. Does not wait for graphs without events.
  cudaError_t wait() const noexcept;

 private:
  /// Graph nodes of one capture.
  struct CaptureNodes {
    /// The last captured operation. Before there is one, the wait for the order event, or null without such a wait.
    cudaGraphNode_t last = nullptr;
    cudaGraphNode_t record = nullptr;  ///< records the order event after the last operation; null: no such node yet
  };
  /// Maximum number of captures in captures_. The end of a capture is unknown, so the oldest ones are dropped.
  static constexpr std::size_t kMaxCaptures = 4096;

  void create_order_event(const QueueWaitForCalls& queue_wait_for_calls);

  std::optional<bool> are_graphs_ordered_;  // false if NCCL_GRAPH_MIXING_SUPPORT=0; read from the environment when the
                                            // first operation is captured
  cudaEvent_t order_event_ = nullptr;  // recorded by each graph and ordered call; null: not created yet
  std::map<unsigned long long, CaptureNodes> captures_;  // by CUDA's capture id, which only increases
  std::atomic<bool> has_captures_{false};
};

}  // namespace busbw::fastpath
