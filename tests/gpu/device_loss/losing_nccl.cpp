// Library that is loaded before NCCL: makes rank 1 lose its GPU during a series of all-reduces (test_device_errors.py).
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <cstdio>

#include "lose_gpu.hpp"

namespace {

constexpr int kRank = 1;
constexpr int kCall = 100;  // late enough that some rows have been measured

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Counts the calls of the rank with the lost GPU, and loses the GPU at call kCall.
void count_call(int device, cudaStream_t stream) {
  static std::atomic<int> calls = 0;
  const int call = ++calls;
  cudaError_t error = cudaSuccess;
  if (call == 1) error = prepare_to_lose(device);
  if (call == kCall) error = lose_gpu(device, stream);
  if (error != cudaSuccess) std::fprintf(stderr, "the GPU could not be lost: %s\n", cudaGetErrorString(error));
}

}  // namespace

extern "C" ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  static const auto all_reduce = next<decltype(&ncclAllReduce)>("ncclAllReduce");
  static const auto rank_of = next<decltype(&ncclCommUserRank)>("ncclCommUserRank");
  static const auto device_of = next<decltype(&ncclCommCuDevice)>("ncclCommCuDevice");
  int rank = -1, device = -1;
  if (rank_of(communicator, &rank) == ncclSuccess && rank == kRank && device_of(communicator, &device) == ncclSuccess)
    count_call(device, stream);
  return all_reduce(send, receive, count, type, op, communicator, stream);
}
