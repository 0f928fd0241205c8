#pragma once
// RAII types and the error check for CUDA's runtime. In this directory, `rank_text` names a rank for error messages:
// "rank 3 on GPU 0000:0f:00" (make_rank_text).
#include <cuda_runtime_api.h>
#include <sched.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/nccl/gpus/device_errors.hpp"
#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {

/// Throws EnvironmentError with `rank_text`, `activity` ("allocating GPU memory"), CUDA's description and a remedy.
/// Returns if there is no error.
inline void check_cuda(cudaError_t error, std::string_view rank_text, const char* activity) {
  if (error == cudaSuccess) return;
  throw EnvironmentError(device_error_message(rank_text, activity, cudaGetErrorName(error), cudaGetErrorString(error)));
}

/// Returns the free bytes of the current device. Nothing if CUDA does not report them.
inline std::optional<std::size_t> free_memory_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
  return free;
}

/// Tries to make another device current in this thread, until destroyed. A failure leaves the current device as it is.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    if (cudaGetDevice(&previous_device_) != cudaSuccess || previous_device_ == device) return;
    has_changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  ~ScopedDevice() {
    if (has_changed_) cudaSetDevice(previous_device_);
  }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int previous_device_ = 0;
  bool has_changed_ = false;
};

/// Memory of the current device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// `purpose`: "a send buffer", for errors.
  DeviceMemory(std::size_t bytes, std::string_view rank_text, const char* purpose) : bytes_(bytes) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which is reported here
      throw EnvironmentError(out_of_memory_message(rank_text, purpose, bytes, free_memory_bytes()));
    }
    check_cuda(error, rank_text, "allocating GPU memory");
    memory_ = static_cast<std::byte*>(memory);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (memory_) cudaFree(memory_);
  }
  std::byte* data() const { return memory_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A non-blocking stream of the current device, or its null stream (-y), which waits for all blocking streams.
class CudaStream {
 public:
  CudaStream(bool use_null_stream, std::string_view rank_text) {
    if (!use_null_stream)
      check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), rank_text, "making a CUDA stream");
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() {
    if (stream_) cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const { return stream_; }
  bool is_null() const { return stream_ == nullptr; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Waits until all work in the stream has ended. Throws JobAborted if the job is aborted.
inline void wait_for_stream(const CudaStream& stream, const Team& world, std::string_view rank_text) {
  constexpr unsigned kPollsPerAbortCheck = 64;
  for (unsigned poll = 1;; ++poll) {
    const cudaError_t state = cudaStreamQuery(stream.get());
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check_cuda(state, rank_text, "waiting for the GPU");
    if (poll % kPollsPerAbortCheck == 0) throw_if_aborted(world);
    sched_yield();
  }
}

/// An event with a timestamp: the time at which the stream reaches it.
class CudaEvent {
 public:
  explicit CudaEvent(std::string_view rank_text) {
    check_cuda(cudaEventCreate(&event_), rank_text, "making a CUDA event");
  }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent() {
    if (event_) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An executable graph: captured operations of one stream, which can be launched any number of times.
class CudaGraph {
 public:
  /// Instantiates the captured graph on the current device and uploads it. The caller keeps `captured`.
  CudaGraph(cudaGraph_t captured, cudaStream_t stream, std::string_view rank_text) {
    check_cuda(cudaGraphInstantiate(&executable_, captured, 0), rank_text, "instantiating a CUDA graph");
    const cudaError_t uploaded = cudaGraphUpload(executable_, stream);
    if (uploaded == cudaSuccess) return;
    cudaGraphExecDestroy(executable_);
    check_cuda(uploaded, rank_text, "uploading a CUDA graph");
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() { cudaGraphExecDestroy(executable_); }
  cudaGraphExec_t get() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace busbw
