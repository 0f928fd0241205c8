#pragma once
// What graphs hold of a communicator: the order of its operations within a graph, and of graphs among each other.
#include <cuda_runtime_api.h>

namespace busbw::fastpath {

/// Operations of one capture run one after another, on whatever streams they were captured. Graphs that are launched run
/// theirs in the order of the launches, on whatever streams: as with NCCL a graph waits for the one that was launched before it,
/// by an event that each graph records when its operations have run. NCCL_GRAPH_MIXING_SUPPORT=0 is the program's word that it
/// keeps that order itself, here as there. Used by one thread at a time.
class Captured {
 public:
  Captured() = default;
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  /// Before an operation is captured on this stream. Throws EnvironmentError where CUDA makes no event.
  cudaError_t before(cudaStream_t stream);
  /// When it has been.
  cudaError_t after(cudaStream_t stream);

  /// Whether the operations of all graphs that were launched by now have run; true where there are none.
  bool have_run() const noexcept;
  /// Until they have.
  void wait() const noexcept;

 private:
  void make_event();

  cudaEvent_t launched_ = nullptr;    // recorded by each graph; null: nothing was ever captured
  unsigned long long id_ = 0;         // CUDA's number of the capture that was used last; 0: none yet
  cudaStream_t stream_ = nullptr;     // of its last operation
  cudaGraphNode_t last_ = nullptr;    // that operation
  cudaGraphNode_t record_ = nullptr;  // of launched_, behind it
};

}  // namespace busbw::fastpath
