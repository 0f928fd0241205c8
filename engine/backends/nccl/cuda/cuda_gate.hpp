#pragma once
// Gate in one device's stream: work behind it waits until the host opens it. All ranks can then issue their operations
// before any of them starts. The host numbers the closings of a gate (kernels/gate_kernel.hpp).
#include <fmt/format.h>

#include <new>
#include <string>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/kernels/gate_kernel.hpp"

namespace busbw {

/// A gate's shared memory and kernels. The destructor opens the gate, so that the device cannot wait forever.
class CudaGate {
 public:
  /// Creates a gate for a stream of the current device. `rank_text`: the rank, for errors.
  CudaGate(std::string rank_text, cudaStream_t stream) : rank_text_(std::move(rank_text)) {
    void* words = nullptr;
    check_cuda(cudaHostAlloc(&words, sizeof(GateWords), cudaHostAllocMapped | cudaHostAllocPortable), rank_text_,
               "allocating memory that host and GPU share");
    words_ = new (words) GateWords{0, 0};
    void* device_pointer = nullptr;
    const cudaError_t error = cudaHostGetDevicePointer(&device_pointer, words_, 0);
    if (error != cudaSuccess) cudaFreeHost(words_);
    check_cuda(error, rank_text_, "mapping memory that host and GPU share");
    device_words_ = static_cast<GateWords*>(device_pointer);
    // Launch an open gate to load the kernel now: loading it later may wait for all work on the device.
    const cudaError_t launched = launch_gate(device_words_, 0, stream);
    if (launched != cudaSuccess) cudaFreeHost(words_);
    check_cuda(launched, rank_text_, "launching a kernel");
  }
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;
  ~CudaGate() {
    open_for_good();
    cudaFreeHost(words_);  // waits for the device
  }

  /// Closes the gate: later work in `stream`, a stream of the current device, waits until closing number `closing` is
  /// opened.
  void close(unsigned long long closing, cudaStream_t stream) {
    check_cuda(launch_gate(device_words_, closing, stream), rank_text_, "closing a gate");
  }
  /// Opens all closings up to number `closing`. Callable from any thread.
  void open(unsigned long long closing) { __atomic_store_n(&words_->opened, closing, __ATOMIC_RELEASE); }
  void open_for_good() { open(~0ULL); }
  /// Throws if a closing exceeded the kernel's time limit, so that the device went on too early.
  void require_not_expired() const {
    if (__atomic_load_n(&words_->expired, __ATOMIC_ACQUIRE) != 0)
      // Not an EnvironmentError, because this process's environment has not failed: another rank may have delayed it.
      throw Error(
          ExitCode::environment,
          fmt::format("{}: operations were held back on the GPU for so long that its time limit passed, so their times "
                      "are invalid; find what delayed this process (its other ranks, swapping, a debugger), "
                      "and run again",
                      rank_text_));
  }

 private:
  std::string rank_text_;
  GateWords* words_ = nullptr;
  GateWords* device_words_ = nullptr;
};

}  // namespace busbw
