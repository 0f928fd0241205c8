// Queues the gather of the inputs and the check of the results, and reports wrong elements.
#include "fastpath/verify/verifier.hpp"

#include <new>

#include "fastpath/choice/table.hpp"
#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {

Verifier::Verifier(ncclComm_t communicator, int rank, int ranks, int device)
    : communicator_(communicator), rank_(rank), ranks_(ranks), device_(device) {
  const ScopedDevice current(device);
  preload_check_kernels();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(MismatchCounts), cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating memory for counts of wrong elements");
  mismatches_.reset(new (memory) MismatchCounts{});
  check(cudaEventCreateWithFlags(&checked_, cudaEventDisableTiming), "creating an event");
}

Verifier::~Verifier() {
  const ScopedDevice device(device_);
  const ScopedRelaxedCapture relaxed_capture;
  for (void* buffer : buffers_) cudaFree(buffer);
  mismatches_.reset();
  cudaEventDestroy(checked_);
}

char* Verifier::reserve_inputs(std::size_t bytes, cudaStream_t stream) {
  const bool captured = is_captured(stream);
  if (!captured && bytes <= shared_buffer_bytes_) {
    inputs_ = shared_buffer_;
    return inputs_;
  }
  const ScopedRelaxedCapture relaxed_capture;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "allocating memory for verification");
  buffers_.push_back(memory);
  inputs_ = static_cast<char*>(memory);
  if (!captured) {
    shared_buffer_ = inputs_;
    shared_buffer_bytes_ = bytes;
  }
  return inputs_;
}

ncclResult_t Verifier::queue_gather(const RealNccl& nccl, const CollectiveCall& call, cudaStream_t stream) {
  const ScopedDevice device(device_);
  const std::size_t bytes = send_bytes(call, ranks_);
  if (facts_of(call.collective).only_root_sends)
    return nccl.broadcast(call.send, reserve_inputs(bytes, stream), bytes, ncclUint8, call.root, communicator_, stream);
  return nccl.all_gather(call.send, reserve_inputs(bytes * static_cast<std::size_t>(ranks_), stream), bytes, ncclUint8,
                         communicator_, stream);
}

cudaError_t Verifier::queue_wait_for_previous_check(cudaStream_t stream) {
  const ScopedDevice device(device_);
  return is_captured(stream) ? cudaSuccess : cudaStreamWaitEvent(stream, checked_, 0);
}

cudaError_t Verifier::queue_check(const CollectiveCall& call, cudaStream_t stream) {
  const ScopedDevice device(device_);
  const CollectiveFacts& facts = facts_of(call.collective);
  // If ranks send shares, each input has one share per rank. This rank's result depends only on its own share of each.
  const std::size_t own_share_offset = facts.sends_shares ? static_cast<std::size_t>(rank_) * call.bytes : 0;
  const CheckArguments arguments{.call = call,
                                 .ranks = ranks_,
                                 .reduces = facts.reduces,
                                 .source_ranks = facts.receives_shares ? ranks_ : 1,
                                 .inputs = inputs_ + own_share_offset,
                                 .stride = send_bytes(call, ranks_)};
  const cudaError_t launch_error = launch_check(arguments, mismatches_.get(), stream);
  if (launch_error != cudaSuccess) return launch_error;
  if (is_captured(stream)) return cudaSuccess;  // GraphOrder::wait() covers graphs with events
  return cudaEventRecord(checked_, stream);
}

cudaError_t Verifier::wait() const noexcept {
  const ScopedRelaxedCapture relaxed_capture;
  return cudaEventSynchronize(checked_);  // returns at once if the event was never recorded
}

bool Verifier::has_found_wrong() const { return __atomic_load_n(&mismatches_->wrong, __ATOMIC_ACQUIRE) != 0; }

}  // namespace busbw::fastpath
