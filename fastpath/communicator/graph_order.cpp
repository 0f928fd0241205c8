// Adds the event nodes and dependencies that order captured operations.
#include "fastpath/communicator/graph_order.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "common/os/environment.hpp"
#include "fastpath/choice/settings.hpp"
#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// The capture of a stream, and the nodes that the next captured node depends on. `predecessors` points into CUDA's
/// list and is valid until the capture changes.
struct StreamCapture {
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  std::span<const cudaGraphNode_t> predecessors;

  cudaGraphNode_t last_predecessor() const { return predecessors.empty() ? nullptr : predecessors.back(); }
  bool has_predecessor(cudaGraphNode_t node) const {
    return std::ranges::find(predecessors, node) != predecessors.end();
  }
};

cudaError_t query_capture(cudaStream_t stream, StreamCapture& capture) {
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
  capture.predecessors = {nodes, count};
  return error;
}

/// Makes the next node that is captured on the stream depend on `node` too.
cudaError_t add_dependency(cudaStream_t stream, cudaGraphNode_t node) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamAddCaptureDependencies);
#else
  return cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamAddCaptureDependencies);
#endif
}

/// Replaces the dependency of `node` on `from` by a dependency on `to`.
cudaError_t replace_dependency(cudaGraph_t graph, cudaGraphNode_t node, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
  if (const cudaError_t error = cudaGraphRemoveDependencies(graph, &from, &node, nullptr, 1); error != cudaSuccess)
    return error;
  return cudaGraphAddDependencies(graph, &to, &node, nullptr, 1);
#else
  if (const cudaError_t error = cudaGraphRemoveDependencies(graph, &from, &node, 1); error != cudaSuccess) return error;
  return cudaGraphAddDependencies(graph, &to, &node, 1);
#endif
}

/// False if NCCL_GRAPH_MIXING_SUPPORT is 0, otherwise true, NCCL's default. Call this after NCCL has started, because
/// NCCL may set the variable from its configuration file.
bool must_order_graphs() { return nccl_number("NCCL_GRAPH_MIXING_SUPPORT", process_environment).value_or(1) != 0; }

}  // namespace

GraphOrder::~GraphOrder() {
  if (order_event_ != nullptr) cudaEventDestroy(order_event_);
}

void GraphOrder::create_order_event(const QueueWaitForCalls& queue_wait_for_calls) {
  const ScopedRelaxedCapture relaxed_capture;
  const NonBlockingStream stream;
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event for graphs");
  // Earlier calls have not recorded the event, so it is recorded after them here.
  cudaError_t error = queue_wait_for_calls(stream.get());
  if (error == cudaSuccess) error = cudaEventRecord(event, stream.get());
  if (error != cudaSuccess) cudaEventDestroy(event);
  check(error, "recording an event for graphs");
  order_event_ = event;
}

void GraphOrder::start_ordering_calls(const QueueWaitForCalls& queue_wait_for_calls) {
  if (order_event_ == nullptr) create_order_event(queue_wait_for_calls);
}

cudaError_t GraphOrder::begin_call(cudaStream_t stream) const noexcept {
  return order_event_ == nullptr ? cudaSuccess : cudaStreamWaitEvent(stream, order_event_, 0);
}

cudaError_t GraphOrder::end_call(cudaStream_t stream) const noexcept {
  return order_event_ == nullptr ? cudaSuccess : cudaEventRecord(order_event_, stream);
}

cudaError_t GraphOrder::begin_captured(cudaStream_t stream, const QueueWaitForCalls& queue_wait_for_calls) {
  StreamCapture capture;
  if (const cudaError_t error = query_capture(stream, capture); error != cudaSuccess) return error;
  if (const auto entry = captures_.find(capture.id); entry != captures_.end()) {
    // The new operation must depend on the last operation. Even the stream of the last operation may lack this
    // dependency, because the program can change a stream's dependencies.
    const cudaGraphNode_t last = entry->second.last;
    if (last == nullptr || capture.has_predecessor(last)) return cudaSuccess;
    return add_dependency(stream, last);
  }
  if (!are_graphs_ordered_.has_value()) are_graphs_ordered_ = must_order_graphs();
  cudaGraphNode_t wait_node = nullptr;
  if (are_graphs_ordered_.value()) {
    start_ordering_calls(queue_wait_for_calls);
    // A node without predecessors, so that the graph's work before its first operation does not wait.
    if (const cudaError_t error = cudaGraphAddEventWaitNode(&wait_node, capture.graph, nullptr, 0, order_event_);
        error != cudaSuccess)
      return error;
    if (const cudaError_t error = add_dependency(stream, wait_node); error != cudaSuccess) return error;
  }
  captures_[capture.id] = {.last = wait_node};
  has_captures_.store(true, std::memory_order_release);
  if (captures_.size() > kMaxCaptures) captures_.erase(captures_.begin());
  return cudaSuccess;
}

cudaError_t GraphOrder::end_captured(cudaStream_t stream) {
  StreamCapture capture;
  if (const cudaError_t error = query_capture(stream, capture); error != cudaSuccess) return error;
  CaptureNodes& nodes = captures_[capture.id];
  const cudaGraphNode_t previous_last = std::exchange(nodes.last, capture.last_predecessor());
  if (!are_graphs_ordered_.value()) return cudaSuccess;
  // The node that records the event moves behind the new last operation.
  if (nodes.record != nullptr) return replace_dependency(capture.graph, nodes.record, previous_last, nodes.last);
  return cudaGraphAddEventRecordNode(&nodes.record, capture.graph, &nodes.last, 1, order_event_);
}

cudaError_t GraphOrder::wait() const noexcept {
  return order_event_ == nullptr ? cudaSuccess : cudaEventSynchronize(order_event_);
}

}  // namespace busbw::fastpath
