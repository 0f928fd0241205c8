#include "fastpath/communicator/graph_order.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "common/os/environment.hpp"
#include "fastpath/choice/settings.hpp"
#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// The capture that a stream is in, and the nodes that its next one will follow: CUDA's own list, until something is
/// done with the capture.
struct StreamCapture {
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  std::span<const cudaGraphNode_t> followed;

  cudaGraphNode_t last() const { return followed.empty() ? nullptr : followed.back(); }
  bool follows(cudaGraphNode_t node) const { return std::ranges::find(followed, node) != followed.end(); }
};

cudaError_t capture_of(cudaStream_t stream, StreamCapture& capture) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  const cudaError_t error =
      cudaStreamGetCaptureInfo(stream, &status, &capture.id, &capture.graph, &nodes, &edges, &count);
#elif CUDART_VERSION >= 12030
  const cudaGraphEdgeData* edges = nullptr;
  const cudaError_t error =
      cudaStreamGetCaptureInfo_v3(stream, &status, &capture.id, &capture.graph, &nodes, &edges, &count);
#else
  const cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &status, &capture.id, &capture.graph, &nodes, &count);
#endif
  capture.followed = {nodes, count};
  return error;
}

/// What is captured next on the stream follows this node, too.
cudaError_t follow(cudaStream_t stream, cudaGraphNode_t node) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamAddCaptureDependencies);
#else
  return cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamAddCaptureDependencies);
#endif
}

/// Has `node` follow `to` in place of `from`.
cudaError_t move(cudaGraph_t graph, cudaGraphNode_t node, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
  if (const cudaError_t error = cudaGraphRemoveDependencies(graph, &from, &node, nullptr, 1); error != cudaSuccess)
    return error;
  return cudaGraphAddDependencies(graph, &to, &node, nullptr, 1);
#else
  if (const cudaError_t error = cudaGraphRemoveDependencies(graph, &from, &node, 1); error != cudaSuccess) return error;
  return cudaGraphAddDependencies(graph, &to, &node, 1);
#endif
}

/// NCCL's default, which a 0 in its variable turns off. It may have come from NCCL's file of settings:
/// ask when NCCL has started.
bool graphs_take_turns() { return nccl_number("NCCL_GRAPH_MIXING_SUPPORT", process_environment).value_or(1) != 0; }

}  // namespace

GraphOrder::~GraphOrder() {
  if (launched_ != nullptr) cudaEventDestroy(launched_);
}

void GraphOrder::make_event(const QueueAfterCalls& behind_calls) {
  const ScopedRelaxedCapture amid;
  const NonBlockingStream stream;
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event for graphs");
  // Calls before this one have not recorded it, since there was none.
  cudaError_t error = behind_calls(stream.get());
  if (error == cudaSuccess) error = cudaEventRecord(event, stream.get());
  if (error != cudaSuccess) cudaEventDestroy(event);
  check(error, "recording an event for graphs");
  launched_ = event;
}

void GraphOrder::start(const QueueAfterCalls& behind_calls) {
  if (launched_ == nullptr) make_event(behind_calls);
}

cudaError_t GraphOrder::before_call(cudaStream_t stream) const noexcept {
  return launched_ == nullptr ? cudaSuccess : cudaStreamWaitEvent(stream, launched_, 0);
}

cudaError_t GraphOrder::after_call(cudaStream_t stream) const noexcept {
  return launched_ == nullptr ? cudaSuccess : cudaEventRecord(launched_, stream);
}

cudaError_t GraphOrder::before(cudaStream_t stream, const QueueAfterCalls& behind_calls) {
  StreamCapture capture;
  if (const cudaError_t error = capture_of(stream, capture); error != cudaSuccess) return error;
  if (const auto known = captures_.find(capture.id); known != captures_.end()) {
    // On the stream of the last operation, too: the program may have set what that follows.
    const cudaGraphNode_t last = known->second.last;
    return last == nullptr || capture.follows(last) ? cudaSuccess : follow(stream, last);
  }
  if (!graphs_take_turns_) graphs_take_turns_ = graphs_take_turns();
  cudaGraphNode_t turn = nullptr;
  if (*graphs_take_turns_) {
    start(behind_calls);
    // By a node without a predecessor: what the graph does before its first operation does not wait.
    if (const cudaError_t error = cudaGraphAddEventWaitNode(&turn, capture.graph, nullptr, 0, launched_);
        error != cudaSuccess)
      return error;
    if (const cudaError_t error = follow(stream, turn); error != cudaSuccess) return error;
  }
  captures_[capture.id] = {turn, nullptr};
  is_empty_.store(false, std::memory_order_release);
  if (captures_.size() > kMaxCaptures) captures_.erase(captures_.begin());
  return cudaSuccess;
}

cudaError_t GraphOrder::after(cudaStream_t stream) {
  StreamCapture capture;
  if (const cudaError_t error = capture_of(stream, capture); error != cudaSuccess) return error;
  CaptureNodes& one = captures_[capture.id];
  const cudaGraphNode_t before = std::exchange(one.last, capture.last());
  if (!*graphs_take_turns_) return cudaSuccess;
  if (one.record != nullptr) return move(capture.graph, one.record, before, one.last);
  return cudaGraphAddEventRecordNode(&one.record, capture.graph, &one.last, 1, launched_);
}

cudaError_t GraphOrder::wait() const noexcept {
  return launched_ == nullptr ? cudaSuccess : cudaEventSynchronize(launched_);
}

}  // namespace busbw::fastpath
