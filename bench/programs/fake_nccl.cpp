// A NCCL whose ranks are all in one thread, or each in a process, for what a call costs that is handed over: communicators know who they are,
// all-gathers in a group gather, for that is how the fast path's ranks meet, and everything else does nothing.
//
// BUSBW_PRETENDED_MEETING names a folder by which ranks that are each in a process gather.
// BUSBW_PRETENDED_NCCL is the version that it gives, 21803 for 2.18.3.
// BUSBW_PRETENDED_NCCL_LOG names a file to which the stream of each operation is written, but of all-gathers, when it is done:
// those of a group at its end.
// BUSBW_PRETENDED_CONFIG names a file to which the configuration of each communicator is written.
// BUSBW_PRETENDED_STATE is the error that every communicator has noticed, 6 for a peer that was lost.
#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct ncclComm {
  int rank;
  int ranks;
  int device;
  bool waits = true;  // for what its calls begin, as by default
};

namespace {

struct Gathering {
  const void* own;
  char* all;
  std::size_t bytes;
  int rank;
  int ranks;
};

/// Those of the group that is open.
thread_local std::vector<Gathering> waiting;
/// Whether it has a call of a communicator that does not wait.
thread_local bool goes_on = false;

/// Of groups that are open, and the streams of their operations.
thread_local int depth = 0;
thread_local std::vector<cudaStream_t> streams;

/// What one rank says in a gathering of processes: a file that appears with all of it.
std::string file_of(const char* folder, int gathering, int rank) {
  return std::string(folder) + "/" + std::to_string(gathering) + "-" + std::to_string(rank);
}

void tell(const std::string& name, const Gathering& from) {
  const std::string unfinished = name + ".unfinished";
  std::FILE* const file = std::fopen(unfinished.c_str(), "w");
  if (!file) return;
  std::fwrite(from.own, 1, from.bytes, file);
  std::fclose(file);
  std::rename(unfinished.c_str(), name.c_str());
}

void hear(const std::string& name, const Gathering& to, int rank) {
  std::FILE* file = nullptr;
  while (!(file = std::fopen(name.c_str(), "r"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::size_t heard = std::fread(to.all + static_cast<std::size_t>(rank) * to.bytes, 1, to.bytes, file);
  std::fclose(file);
  if (heard != to.bytes) std::abort();
}

void gather_from_processes(const char* folder) {
  static int gatherings = 0;
  for (const Gathering& one : waiting) {
    const int gathering = gatherings++;
    tell(file_of(folder, gathering, one.rank), one);
    for (int rank = 0; rank < one.ranks; ++rank) hear(file_of(folder, gathering, rank), one, rank);
  }
}

std::FILE* operations() {
  static std::FILE* const file = [] {
    const char* const name = std::getenv("BUSBW_PRETENDED_NCCL_LOG");
    return name ? std::fopen(name, "a") : nullptr;
  }();
  return file;
}

void launch() {
  for (const cudaStream_t stream : streams) {
    std::fprintf(operations(), "nccl stream %ju\n",
                 static_cast<std::uintmax_t>(reinterpret_cast<std::uintptr_t>(stream)));
    std::fflush(operations());
  }
  streams.clear();
}

ncclResult_t done(cudaStream_t stream) {
  if (operations() == nullptr) return ncclSuccess;
  streams.push_back(stream);
  if (depth == 0) launch();
  return ncclSuccess;
}

/// What NCCL from 2.30 on reads behind the configuration that these headers know; UNDEF where it is shorter.
int max_p2p_peers(const ncclConfig_t& config) {
  constexpr std::size_t kAt = 88;
  int peers = NCCL_CONFIG_UNDEF_INT;
  if (config.size >= kAt + sizeof peers)
    std::memcpy(&peers, reinterpret_cast<const char*>(&config) + kAt, sizeof peers);
  return peers;
}

/// As NCCL's own variable has it, whatever the configuration says.
bool waits(int blocking) {
  const char* const asked = std::getenv("NCCL_COMM_BLOCKING");
  return asked ? std::atoi(asked) != 0 : blocking != 0;
}

void note(const ncclConfig_t& config) {
  const char* const name = std::getenv("BUSBW_PRETENDED_CONFIG");
  std::FILE* const file = name ? std::fopen(name, "a") : nullptr;
  if (!file) return;
  std::fprintf(file, "version %u nvlinkCentricSched %d maxP2pPeers %d\n", config.version, config.nvlinkCentricSched,
               max_p2p_peers(config));
  std::fclose(file);
}

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
  *communicator = new ncclComm{rank, ranks, rank, waits(NCCL_CONFIG_UNDEF_INT)};
  return (*communicator)->waits ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank, ncclConfig_t* config) {
  note(*config);
  *communicator = new ncclComm{rank, ranks, rank, waits(config->blocking)};
  return (*communicator)->waits ? ncclSuccess : ncclInProgress;
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
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  const char* const state = std::getenv("BUSBW_PRETENDED_STATE");
  *error = state ? static_cast<ncclResult_t>(std::atoi(state)) : ncclSuccess;
  return ncclSuccess;
}
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

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth == 0 && !streams.empty()) launch();
  if (const char* const folder = waiting.empty() ? nullptr : std::getenv("BUSBW_PRETENDED_MEETING")) {
    gather_from_processes(folder);
    waiting.clear();
  }
  for (const Gathering& from : waiting)
    for (const Gathering& to : waiting)
      std::memmove(to.all + static_cast<std::size_t>(from.rank) * from.bytes, from.own, from.bytes);
  waiting.clear();
  return std::exchange(goes_on, false) ? ncclInProgress : ncclSuccess;
}
ncclResult_t ncclAllGather(const void* own, void* all, size_t bytes, ncclDataType_t, ncclComm_t communicator,
                           cudaStream_t) {
  waiting.push_back({own, static_cast<char*>(all), bytes, communicator->rank, communicator->ranks});
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t communicator,
                           cudaStream_t stream) {
  if (communicator == nullptr) return ncclInvalidArgument;
  goes_on = goes_on || !communicator->waits;
  return done(stream);
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t stream) {
  return done(stream);
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return done(stream);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) { return done(stream); }
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return done(stream);
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t stream) {
  return done(stream);
}
ncclResult_t ncclGather(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return done(stream);
}
ncclResult_t ncclScatter(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return done(stream);
}
/// Without its arguments, which are newer than these headers.
ncclResult_t ncclSignal() { return ncclSuccess; }
}
