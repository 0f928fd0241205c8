#include "lose_gpu.hpp"

namespace {

__global__ void trapped() { __trap(); }

/// Sets the current device and restores the previous one.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~ScopedDevice() { cudaSetDevice(before_); }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

cudaError_t prepare_to_lose(int device) {
  const ScopedDevice on_device(device);
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, trapped);
}

cudaError_t lose_gpu(int device, cudaStream_t stream) {
  const ScopedDevice on_device(device);
  trapped<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}
