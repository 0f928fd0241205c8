#include "lose_gpu.hpp"

namespace {

__global__ void trapped() { __trap(); }

/// Makes a device the current one for as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

cudaError_t prepare_to_lose(int device) {
  const OnDevice on_device(device);
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, trapped);
}

cudaError_t lose_gpu(int device, cudaStream_t stream) {
  const OnDevice on_device(device);
  trapped<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}
