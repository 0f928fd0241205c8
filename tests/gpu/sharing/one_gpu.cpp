// Replacements of CUDA functions that report a separate GPU for each process that shares a GPU, with NVLink between
// all. The fast path normally delegates such ranks to NCCL. Linked with this file it serves them, so tests need only
// one GPU.
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
