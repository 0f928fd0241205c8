#pragma once
// CUDA errors as exceptions, RAII guards for the current device and the capture mode, and a stream that its owner
// destroys.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "common/support/error.hpp"

namespace busbw::fastpath {

/// Throws EnvironmentError with the activity and CUDA's error text. Clears CUDA's last error, so that the program does
/// not find it after a later call.
inline void check(cudaError_t error, const char* activity) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw EnvironmentError(fmt::format("{}: {}", activity, cudaGetErrorString(error)));
}

/// Sets this thread's current device and restores the previous one.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    changed_ = cudaGetDevice(&previous_device_) == cudaSuccess && previous_device_ != device &&
               cudaSetDevice(device) == cudaSuccess;
  }
  ~ScopedDevice() {
    if (changed_) cudaSetDevice(previous_device_);
  }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int previous_device_ = 0;
  bool changed_ = false;
};

/// Sets this thread's capture mode to relaxed and restores the previous mode. Relaxed mode allows calls that CUDA
/// otherwise forbids while a graph is being captured.
class ScopedRelaxedCapture {
 public:
  ScopedRelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~ScopedRelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Sets `captured` to true if the stream is being captured.
inline cudaError_t query_captured(cudaStream_t stream, bool& captured) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &status);
  captured = error == cudaSuccess && status == cudaStreamCaptureStatusActive;
  return error;
}

/// True if the stream is being captured. False if CUDA returns an error.
inline bool is_captured(cudaStream_t stream) {
  bool captured = false;
  query_captured(stream, captured);
  return captured;
}

/// A stream of the current device that does not synchronize with the legacy default stream.
class NonBlockingStream {
 public:
  NonBlockingStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
  ~NonBlockingStream() { cudaStreamDestroy(stream_); }
  NonBlockingStream(const NonBlockingStream&) = delete;
  NonBlockingStream& operator=(const NonBlockingStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace busbw::fastpath
