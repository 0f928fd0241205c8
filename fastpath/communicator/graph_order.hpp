#pragma once
// What graphs hold of a communicator: the order of its operations within a graph, and of graphs and calls among each
// other.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>

namespace busbw::fastpath {

/// Operations of one capture run one after another, on whatever streams they were captured. Graphs that are launched
/// run theirs in the order of the launches, on whatever streams: as with NCCL a graph waits for the one that was
/// launched before it, by an event that each graph records when its operations have run. Calls that are not captured
/// have their place in that order, too, once there is something captured: they wait for the event and record it.
/// NCCL_GRAPH_MIXING_SUPPORT=0 is the program's word that it keeps that order itself; graphs hold no event then, here
/// as there. Used by one thread at a time.
class GraphOrder {
 public:
  GraphOrder() = default;
  ~GraphOrder();
  GraphOrder(const GraphOrder&) = delete;
  GraphOrder& operator=(const GraphOrder&) = delete;

  /// Before a call on this stream, and behind it.
  cudaError_t before_call(cudaStream_t stream) const noexcept;
  cudaError_t after_call(cudaStream_t stream) const noexcept;

  /// Queues on a stream what ends when all calls by now have run.
  using QueueAfterCalls = std::function<cudaError_t(cudaStream_t)>;

  /// From now on calls have their place in the order, although nothing is captured yet. Throws EnvironmentError where
  /// CUDA makes no event.
  void start(const QueueAfterCalls& behind_calls);

  /// Before something is captured on this stream, which comes behind those calls. Throws EnvironmentError where CUDA
  /// makes no event.
  cudaError_t before(cudaStream_t stream, const QueueAfterCalls& behind_calls);
  /// When it has been.
  cudaError_t after(cudaStream_t stream);

  /// Whether nothing was ever captured. Any thread may ask.
  bool is_empty() const noexcept { return is_empty_.load(std::memory_order_acquire); }
  /// Whether graphs hold operations and no event, so that nobody knows whether one of them runs.
  bool has_unordered_graphs() const noexcept { return !is_empty() && !graphs_take_turns_.value_or(true); }
  /// Until all that was launched by now has run, as far as events tell.
  cudaError_t wait() const noexcept;

 private:
  /// Of one capture, nodes of its graph.
  struct CaptureNodes {
    cudaGraphNode_t last = nullptr;  ///< its last operation, or before the first the graph's turn; null: neither yet
    cudaGraphNode_t record = nullptr;  ///< of launched_, behind it; null: none yet, or graphs do not take turns
  };
  /// So many captures are remembered, as nobody says when one has ended; of older ones nothing is known any more.
  static constexpr std::size_t kMaxCaptures = 4096;

  void make_event(const QueueAfterCalls& behind_calls);

  std::optional<bool> graphs_take_turns_;  // asked when something is captured first
  cudaEvent_t launched_ = nullptr;  // recorded by each graph and call; null: there is none yet
  std::map<unsigned long long, CaptureNodes> captures_;  // by CUDA's number of the capture, which only grows
  std::atomic<bool> is_empty_{true};
};

}  // namespace busbw::fastpath
