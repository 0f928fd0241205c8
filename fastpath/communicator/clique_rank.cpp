// Queues the kernels of one rank, waits for them, and drains them after an abort.
#include "fastpath/communicator/clique_rank.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

// Polling of drain_windows().
constexpr std::chrono::milliseconds kPollInterval{5};
constexpr int kUnchangedPolls = 10;  // 50 ms, five times the interval at which kernels check the abort flag
constexpr int kMaxPolls = 400;       // two seconds

}  // namespace

CliqueRank::~CliqueRank() {
  const cudaError_t error = wait();
  const bool has_all_work_ended = error == cudaSuccess && !graph_order_.has_unordered_graphs();
  if (is_aborted() || has_all_work_ended) return;
  const ScopedDevice device(device_);
  const ScopedRelaxedCapture relaxed_capture;
  if (cudaDeviceSynchronize() == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the program's next query does not return it
  // Kernels may still run, so their memory must not be reused.
  scratch_->leak();
  reservation_.leak();
}

cudaError_t CliqueRank::wait() const noexcept {
  if (is_aborted()) return cudaSuccess;
  const ScopedDevice device(device_);
  const ScopedRelaxedCapture relaxed_capture;
  cudaError_t error = graph_order_.wait();
  if (error == cudaSuccess && has_queued_call()) error = wait_for_calls();
  cudaGetLastError();
  return error;
}

cudaError_t CliqueRank::wait_for_calls() const noexcept {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); error != cudaSuccess)
    return error;
  cudaError_t error = launch_wait_for_calls(stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error;
}

void CliqueRank::drain_windows() noexcept {
  if (!is_aborted() || !used_windows_.load(std::memory_order_acquire)) return;
  const ScopedDevice device(device_);
  const ScopedRelaxedCapture relaxed_capture;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
  // A kernel that waits for a peer checks the abort flag about every ten milliseconds and advances its tags when it
  // exits. Calls have finished when their tags reach last_tag(). The number of queued graph replays is unknown, so
  // graphs count as finished if their tags stay unchanged for kUnchangedPolls polls.
  using Tags = std::array<std::uint64_t, kMaxBlocks>;
  const auto queue_copy_of_tags = [&](LaneKind lane, Tags& tags) {
    cudaMemcpyAsync(tags.data(), scratch_->lane(lane).tags, sizeof tags, cudaMemcpyDeviceToHost, stream);
  };
  Tags previous_graph_tags{};
  int unchanged_polls = 0;
  for (int poll = 0; poll < kMaxPolls && unchanged_polls < kUnchangedPolls; ++poll) {
    Tags call_tags{};
    Tags graph_tags{};
    queue_copy_of_tags(LaneKind::calls, call_tags);
    queue_copy_of_tags(LaneKind::graphs, graph_tags);
    if (cudaStreamSynchronize(stream) != cudaSuccess) break;
    const bool calls_have_ended = *std::min_element(call_tags.begin(), call_tags.end()) >= last_tag();
    if (calls_have_ended && !graph_order_.has_captures()) break;
    const bool is_unchanged = calls_have_ended && graph_tags == previous_graph_tags;
    unchanged_polls = is_unchanged ? unchanged_polls + 1 : 0;
    previous_graph_tags = graph_tags;
    std::this_thread::sleep_for(kPollInterval);
  }
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

MethodConfig CliqueRank::select_config_for_call(const CollectiveCall& call) const noexcept {
  const MethodConfig delegated{};
  if (call.bytes == 0 || is_aborted()) return delegated;
  if (facts_of(call.collective).reduces && call.element == ElementType::bytes) return delegated;
  if (call.root < 0 || call.root >= ranks_) return delegated;
  const bool in_windows =
      selector_->depends_on_windows(call.collective, ranks_) && windows_.peer_buffers(call, ranks_).has_value();
  return selector_->select_config(call.collective, ranks_, size_bytes(call, ranks_), in_windows);
}

std::optional<Operation> CliqueRank::build_operation(const CollectiveCall& call, const MethodConfig& config) const {
  const int max_cells = scratch_->lane(LaneKind::calls).cells;
  if (config.method != Method::direct) return make_operation(call, config, rank_, ranks_, max_cells);
  const auto peers = windows_.peer_buffers(call, ranks_);
  if (!peers) return std::nullopt;
  return make_direct_operation(call, config, rank_, ranks_, max_cells, *peers);
}

cudaError_t CliqueRank::enqueue(const CollectiveCall& call, const MethodConfig& config, cudaStream_t stream) {
  const ScopedDevice device(device_);
  const auto operation = build_operation(call, config);
  if (!operation) return cudaErrorInvalidValue;
  if (operation->method == Method::direct) used_windows_.store(true, std::memory_order_release);
  bool captured = false;
  if (const cudaError_t error = query_captured(stream, captured); error != cudaSuccess) return error;
  if (const cudaError_t error = begin_operation(stream, captured); error != cudaSuccess) return error;
  const cudaError_t error =
      captured ? launch(*operation, scratch_->lane(LaneKind::graphs), stream) : launch_call(*operation, stream);
  return error == cudaSuccess ? end_operation(stream, captured) : error;
}

cudaError_t CliqueRank::begin_operation(cudaStream_t stream, bool captured) {
  return captured ? graph_order_.begin_captured(stream, make_call_wait_callback()) : graph_order_.begin_call(stream);
}

cudaError_t CliqueRank::end_operation(cudaStream_t stream, bool captured) {
  return captured ? graph_order_.end_captured(stream) : graph_order_.end_call(stream);
}

cudaError_t CliqueRank::begin_ordered_unit(cudaStream_t stream) {
  const ScopedDevice device(device_);
  bool captured = false;
  if (const cudaError_t error = query_captured(stream, captured); error != cudaSuccess) return error;
  // Tags order only the kernels of the fast path. The unit has other kernels too, so it needs the order event.
  if (!captured) graph_order_.start_ordering_calls(make_call_wait_callback());
  return begin_operation(stream, captured);
}

cudaError_t CliqueRank::end_ordered_unit(cudaStream_t stream) {
  const ScopedDevice device(device_);
  bool captured = false;
  const cudaError_t error = query_captured(stream, captured);
  return error == cudaSuccess ? end_operation(stream, captured) : error;
}

GraphOrder::QueueWaitForCalls CliqueRank::make_call_wait_callback() const {
  return [this](cudaStream_t stream) { return has_queued_call() ? launch_wait_for_calls(stream) : cudaSuccess; };
}

cudaError_t CliqueRank::launch_call(const Operation& operation, cudaStream_t stream) {
  unsigned long long stream_id = 0;
  if (const cudaError_t error = cudaStreamGetId(stream, &stream_id); error != cudaSuccess) return error;
  if (has_queued_call() && stream_id != last_stream_id_)
    if (const cudaError_t error = launch_wait_for_calls(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = launch(operation, scratch_->lane(LaneKind::calls), stream); error != cudaSuccess)
    return error;
  last_tag_.store(last_tag() + static_cast<std::uint64_t>(operation.grid.steps), std::memory_order_release);
  last_stream_id_ = stream_id;
  return cudaSuccess;
}

cudaError_t CliqueRank::launch_wait_for_calls(cudaStream_t stream) const noexcept {
  return launch_wait(scratch_->lane(LaneKind::calls), last_tag(), stream);
}

}  // namespace busbw::fastpath
