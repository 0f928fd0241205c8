// Preloaded before NCCL: in the midst of all-reduces the GPU of rank 1 is lost (tests/gpu/test_trouble.py).
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>

#include "lose_gpu.hpp"

namespace {

constexpr int kRank = 1;
constexpr int kCall = 100;  // some rows are measured by then

}  // namespace

extern "C" ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  static const auto next = reinterpret_cast<decltype(&ncclAllReduce)>(dlsym(RTLD_NEXT, "ncclAllReduce"));
  static const auto rank_of = reinterpret_cast<decltype(&ncclCommUserRank)>(dlsym(RTLD_NEXT, "ncclCommUserRank"));
  static std::atomic<int> calls = 0;
  int rank = -1;
  if (rank_of(communicator, &rank) == ncclSuccess && rank == kRank) {
    const int call = ++calls;
    if (call == 1) load_lose_gpu();
    if (call == kCall) lose_gpu(stream);
  }
  return next(send, receive, count, type, op, communicator, stream);
}
