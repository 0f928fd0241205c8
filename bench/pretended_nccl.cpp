// A NCCL whose ranks are all in one thread, for what a call costs that is handed over: communicators know who they are,
// all-gathers in a group gather, for that is how the fast path's ranks meet, and everything else does nothing.
//
// BUSBW_PRETENDED_NCCL is the version that it gives, 21803 for 2.18.3.
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <vector>

struct ncclComm {
  int rank;
  int ranks;
  int device;
};

namespace {

struct Gathering {
  const void* own;
  char* all;
  std::size_t bytes;
  int rank;
};

/// Those of the group that is open.
thread_local std::vector<Gathering> waiting;

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const char* const given = std::getenv("BUSBW_PRETENDED_NCCL");
  *version = given ? std::atoi(given) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

/// Exported whatever the version, as by a library that stands before an older one.
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  constexpr int kSince = 21900;
  int version = 0;
  ncclGetVersion(&version);
  if (version < kSince) return ncclInvalidUsage;
  *memory = std::malloc(bytes);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  std::free(memory);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error that is pretended"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank) {
  *communicator = new ncclComm{rank, ranks, rank};
  return ncclSuccess;
}
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int ranks, const int* devices) {
  for (int r = 0; r < ranks; ++r) communicators[r] = new ncclComm{r, ranks, devices ? devices[r] : r};
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = ncclSuccess; }
ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  *device = communicator->device;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  for (const Gathering& from : waiting)
    for (const Gathering& to : waiting)
      std::memmove(to.all + static_cast<std::size_t>(from.rank) * from.bytes, from.own, from.bytes);
  waiting.clear();
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void* own, void* all, size_t bytes, ncclDataType_t, ncclComm_t communicator,
                           cudaStream_t) {
  waiting.push_back({own, static_cast<char*>(all), bytes, communicator->rank});
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
}
