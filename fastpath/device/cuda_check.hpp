#pragma once
// CUDA's errors as exceptions, and the current device for a while.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "common/support/error.hpp"

namespace busbw::fastpath {

/// Throws EnvironmentError: in doing what, and what CUDA says. The error is taken out of CUDA's memory, so that the
/// program does not find it behind a call of its own.
inline void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw EnvironmentError(fmt::format("{}: {}", doing, cudaGetErrorString(error)));
}

/// Another current device of this thread, for as long as this lives.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    changed_ = cudaGetDevice(&before_) == cudaSuccess && before_ != device && cudaSetDevice(device) == cudaSuccess;
  }
  ~ScopedDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// What this thread does is allowed while some other thread captures a graph.
class ScopedRelaxedCapture {
 public:
  ScopedRelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~ScopedRelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline cudaError_t query_captured(cudaStream_t stream, bool& captured) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &status);
  captured = error == cudaSuccess && status == cudaStreamCaptureStatusActive;
  return error;
}

/// False where CUDA can't say.
inline bool is_captured(cudaStream_t stream) {
  bool captured = false;
  query_captured(stream, captured);
  return captured;
}

/// A stream of the current device that waits for no other.
class NonBlockingStream {
 public:
  NonBlockingStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~NonBlockingStream() { cudaStreamDestroy(stream_); }
  NonBlockingStream(const NonBlockingStream&) = delete;
  NonBlockingStream& operator=(const NonBlockingStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace busbw::fastpath
