// Says of processes that share a GPU that each has one of its own, linked with all others by NVLink. The fast path
// leaves such ranks to NCCL; linked with this, it serves them, and runs where there is one GPU.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>

extern "C" {

cudaError_t __wrap_cudaDeviceGetPCIBusId(char* id, int length, int) {
  std::snprintf(id, static_cast<std::size_t>(length), "%x:00:00.0", static_cast<unsigned>(getpid()));
  return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetByPCIBusId(int* device, const char*) { return cudaGetDevice(device); }

cudaError_t __wrap_cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = 1;
  return cudaSuccess;
}
}
