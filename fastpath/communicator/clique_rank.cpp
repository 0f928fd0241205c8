#include "fastpath/communicator/clique_rank.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr int kQuietLooks = 10;
constexpr int kMostLooks = 400;  // two seconds

}  // namespace

Clique::~Clique() {
  const cudaError_t error = wait();
  if (is_aborted() || (error == cudaSuccess && !captured_.is_untold())) return;
  const Device device(device_);
  const AmidCaptures amid;
  if (cudaDeviceSynchronize() == cudaSuccess) return;
  cudaGetLastError();
  // Kernels may still run: nobody is given their memory.
  scratch_->give_up();
  share_.give_up();
}

cudaError_t Clique::wait() const noexcept {
  if (is_aborted()) return cudaSuccess;
  const Device device(device_);
  const AmidCaptures amid;
  cudaError_t error = captured_.wait();
  if (error == cudaSuccess && has_calls()) error = wait_for_calls();
  cudaGetLastError();
  return error;
}

cudaError_t Clique::wait_for_calls() const noexcept {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); error != cudaSuccess)
    return error;
  cudaError_t error = launch_wait_for_calls(stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error;
}

void Clique::leave_windows() noexcept {
  if (!is_aborted() || !used_windows_.load(std::memory_order_acquire)) return;
  const Device device(device_);
  const AmidCaptures amid;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
  // A kernel that waits for a peer looks at the flag every ten milliseconds or so, and its tags go on when it leaves.
  // How many replays of graphs are queued is not known, nor whether something else keeps them; a while without any that
  // leaves must do.
  using Words = std::array<std::uint64_t, kMaxBlocks>;
  Words before{};
  for (int look = 0, quiet = 0; look < kMostLooks && quiet < kQuietLooks; ++look) {
    Words calls{};
    Words graphs{};
    cudaMemcpyAsync(calls.data(), scratch_->lane(LaneOf::calls).tags, sizeof calls, cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(graphs.data(), scratch_->lane(LaneOf::graphs).tags, sizeof graphs, cudaMemcpyDeviceToHost, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) break;
    const bool have_left = *std::min_element(calls.begin(), calls.end()) >= last_tag();
    if (have_left && captured_.is_empty()) break;
    quiet = have_left && graphs == before ? quiet + 1 : 0;
    before = graphs;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

Choice Clique::choose(const Call& call) const noexcept {
  const Choice handed_over{};
  if (call.bytes == 0 || is_aborted()) return handed_over;
  const bool reduces = call.collective == Collective::all_reduce || call.collective == Collective::reduce_scatter;
  if (reduces && call.element == Element::bytes) return handed_over;
  if (call.root < 0 || call.root >= ranks_) return handed_over;
  const bool in_windows =
      choices_->regards_windows(call.collective, ranks_) && windows_.reach(call, ranks_).has_value();
  return choices_->choose(call.collective, ranks_, size_bytes(call, ranks_), in_windows);
}

std::optional<Operation> Clique::operation(const Call& call, const Choice& choice) const {
  const int cells = scratch_->lane(LaneOf::calls).cells;
  if (choice.method != Method::direct) return operation_of(call, choice, rank_, ranks_, cells);
  const auto reach = windows_.reach(call, ranks_);
  if (!reach) return std::nullopt;
  return direct_operation_of(call, choice, rank_, ranks_, cells, *reach);
}

cudaError_t Clique::queue(const Call& call, const Choice& choice, cudaStream_t stream) {
  const Device device(device_);
  const auto operation = this->operation(call, choice);
  if (!operation) return cudaErrorInvalidValue;
  if (operation->method == Method::direct) used_windows_.store(true, std::memory_order_release);
  bool captured = false;
  if (const cudaError_t error = ask_captured(stream, captured); error != cudaSuccess) return error;
  if (const cudaError_t error = begin(stream, captured); error != cudaSuccess) return error;
  const cudaError_t error =
      captured ? launch(*operation, scratch_->lane(LaneOf::graphs), stream) : launch_call(*operation, stream);
  return error == cudaSuccess ? end(stream, captured) : error;
}

cudaError_t Clique::begin(cudaStream_t stream, bool captured) {
  return captured ? captured_.before(stream, behind_calls()) : captured_.before_call(stream);
}

cudaError_t Clique::end(cudaStream_t stream, bool captured) {
  return captured ? captured_.after(stream) : captured_.after_call(stream);
}

cudaError_t Clique::enter(cudaStream_t stream) {
  const Device device(device_);
  bool captured = false;
  if (const cudaError_t error = ask_captured(stream, captured); error != cudaSuccess) return error;
  if (!captured) captured_.start(behind_calls());
  return begin(stream, captured);
}

cudaError_t Clique::leave(cudaStream_t stream) {
  const Device device(device_);
  bool captured = false;
  const cudaError_t error = ask_captured(stream, captured);
  return error == cudaSuccess ? end(stream, captured) : error;
}

Captured::BehindCalls Clique::behind_calls() const {
  return [this](cudaStream_t stream) { return has_calls() ? launch_wait_for_calls(stream) : cudaSuccess; };
}

cudaError_t Clique::launch_call(const Operation& operation, cudaStream_t stream) {
  unsigned long long number = 0;
  if (const cudaError_t error = cudaStreamGetId(stream, &number); error != cudaSuccess) return error;
  if (has_calls() && number != last_stream_)
    if (const cudaError_t error = launch_wait_for_calls(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = launch(operation, scratch_->lane(LaneOf::calls), stream); error != cudaSuccess)
    return error;
  last_tag_.store(last_tag() + static_cast<std::uint64_t>(operation.grid.steps), std::memory_order_release);
  last_stream_ = number;
  return cudaSuccess;
}

cudaError_t Clique::launch_wait_for_calls(cudaStream_t stream) const noexcept {
  return launch_wait(scratch_->lane(LaneOf::calls), last_tag(), stream);
}

}  // namespace busbw::fastpath
