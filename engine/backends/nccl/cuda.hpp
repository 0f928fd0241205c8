#pragma once
// CUDA's runtime with owners and exceptions.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "support/error.hpp"

namespace busbw {

/// Throws EnvironmentError: what was done, what CUDA says.
inline void check_cuda(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  throw EnvironmentError(fmt::format("{} failed: {} ({})", doing, cudaGetErrorString(error), cudaGetErrorName(error)));
}

/// Memory of the current device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, bytes), "allocating GPU memory");
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

/// A point in a stream's order, with a time.
class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "making a CUDA event"); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace busbw
