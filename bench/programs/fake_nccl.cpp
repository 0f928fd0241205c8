// Fake NCCL for measuring the cost of delegated calls, with all ranks in one thread or one rank per process.
// Communicators know their rank and size. All-gathers in a group gather data, which the fast path needs to set up its
// cliques. All other operations do nothing.
//
// BUSBW_PRETENDED_MEETING: folder through which ranks of several processes gather.
// BUSBW_PRETENDED_NCCL: reported version, such as 21803 for 2.18.3.
// BUSBW_PRETENDED_NCCL_LOG: file for the stream of each operation except all-gathers, written when it is issued, or at
// the end of its group.
// BUSBW_PRETENDED_CONFIG: file for the configuration of each communicator.
// BUSBW_PRETENDED_ALGORITHMS: algorithm of the all-reduces of each rank, such as RING,TREE. They are reported to the
// profiler plugin NCCL_PROFILER_PLUGIN. BUSBW_PRETENDED_NCCL_LOG then has "profiled" or "not profiled" for each.
// BUSBW_PRETENDED_STATE: asynchronous error of every communicator, such as 6 for a lost peer.
// Further variables: fake_peers.hpp.
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_peers.hpp"
#include "tests/profiler/nccl_events.hpp"

struct ncclComm {
  int rank;
  int ranks;
  int device;
  bool is_blocking = true;
  std::unique_ptr<busbw::test::FakePeers> peers = nullptr;  // null: operations end at once
};

namespace {

/// One rank's call of ncclAllGather.
struct GatherCall {
  const void* own;
  char* all;
  std::size_t bytes;  ///< of one rank
  int rank;
  int ranks;
};

/// All-gathers of the open group.
thread_local std::vector<GatherCall> pending_gathers;
/// True if the open group has a call of a non-blocking communicator.
thread_local bool has_nonblocking = false;

/// Communicators for `pretended_work_has_ended`.
std::set<ncclComm_t> live_communicators;
/// Communicator and peers of the sends and receives of the open group.
thread_local ncclComm_t transfer_communicator = nullptr;
thread_local std::set<int> transfer_peers;

/// Number of open groups, and the streams of their operations for the log.
thread_local int group_depth = 0;
thread_local std::vector<cudaStream_t> group_streams;

/// Path of one rank's contribution to an all-gather of processes. `gather` counts the all-gathers.
std::string file_path(const char* folder, int gather, int rank) {
  return std::string(folder) + "/" + std::to_string(gather) + "-" + std::to_string(rank);
}

/// Writes one rank's contribution. The file gets its name when it is complete, so that readers see whole files.
void write_file(const std::string& name, const GatherCall& from) {
  const std::string unfinished = name + ".unfinished";
  std::FILE* const file = std::fopen(unfinished.c_str(), "w");
  if (!file) return;
  std::fwrite(from.own, 1, from.bytes, file);
  std::fclose(file);
  std::rename(unfinished.c_str(), name.c_str());
}

/// Waits for a rank's contribution and reads it.
void read_file(const std::string& name, const GatherCall& to, int rank) {
  std::FILE* file = std::fopen(name.c_str(), "r");
  while (file == nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    file = std::fopen(name.c_str(), "r");
  }
  const std::size_t size = std::fread(to.all + static_cast<std::size_t>(rank) * to.bytes, 1, to.bytes, file);
  std::fclose(file);
  if (size != to.bytes) std::abort();
}

void gather_from_processes(const char* folder) {
  static int gather_count = 0;
  for (const GatherCall& call : pending_gathers) {
    const int gather = gather_count++;
    write_file(file_path(folder, gather, call.rank), call);
    for (int rank = 0; rank < call.ranks; ++rank) read_file(file_path(folder, gather, rank), call, rank);
  }
}

/// Gathers among the ranks of this process. The open group has the call of every rank.
void gather_in_process() {
  for (const GatherCall& from : pending_gathers)
    for (const GatherCall& to : pending_gathers)
      std::memmove(to.all + static_cast<std::size_t>(from.rank) * from.bytes, from.own, from.bytes);
}

/// File of BUSBW_PRETENDED_NCCL_LOG. Null if it is unset.
std::FILE* operation_log() {
  static std::FILE* const file = [] {
    const char* const name = std::getenv("BUSBW_PRETENDED_NCCL_LOG");
    return name ? std::fopen(name, "a") : nullptr;
  }();
  return file;
}

/// Logs the operations of the group as launched.
void log_launches() {
  for (const cudaStream_t stream : group_streams) {
    std::fprintf(operation_log(), "nccl stream %ju\n",
                 static_cast<std::uintmax_t>(reinterpret_cast<std::uintptr_t>(stream)));
    std::fflush(operation_log());
  }
  group_streams.clear();
}

/// Issues an operation, which only writes to the log.
ncclResult_t issue_operation(cudaStream_t stream) {
  if (operation_log() == nullptr) return ncclSuccess;
  group_streams.push_back(stream);
  if (group_depth == 0) log_launches();
  return ncclSuccess;
}

/// Issues a send or receive of a group.
ncclResult_t issue_transfer(int peer, ncclComm_t communicator, cudaStream_t stream) {
  if (communicator->peers) {
    has_nonblocking = has_nonblocking || !communicator->is_blocking;
    transfer_communicator = communicator;
    transfer_peers.insert(peer);
  }
  return issue_operation(stream);
}

/// Field maxP2pPeers, which NCCL 2.30 and later reads behind the end of the struct in these headers. UNDEF if the
/// program's struct is shorter.
int max_p2p_peers(const ncclConfig_t& config) {
  constexpr std::size_t kOffset = 88;  // of the field in NCCL 2.30's ncclConfig_t
  int peers = NCCL_CONFIG_UNDEF_INT;
  if (config.size >= kOffset + sizeof peers)
    std::memcpy(&peers, reinterpret_cast<const char*>(&config) + kOffset, sizeof peers);
  return peers;
}

/// True for a blocking communicator. `blocking` is the configured value; undefined (not 0) counts as blocking.
/// NCCL_COMM_BLOCKING overrides the value.
bool is_blocking(int blocking) {
  const char* const blocking_variable = std::getenv("NCCL_COMM_BLOCKING");
  return blocking_variable ? std::atoi(blocking_variable) != 0 : blocking != 0;
}

/// NCCL's mask of wanted events, which the plugin sets.
int wanted_events = 0;

/// Version 4 of the interface of the profiler plugin. Null if no plugin is named.
const busbw::test::PluginTable<busbw::test::FourthInit>* profiler() {
  static const auto* const table = [] {
    const char* const name = std::getenv("NCCL_PROFILER_PLUGIN");
    void* const library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    return library ? static_cast<const busbw::test::PluginTable<busbw::test::FourthInit>*>(
                         dlsym(library, "ncclProfiler_v4"))
                   : nullptr;
  }();
  return table;
}

void start_profiler(const ncclComm& communicator) {
  void* context = nullptr;
  if (profiler()) profiler()->init(&context, &wanted_events, "a", 1, 1, communicator.ranks, communicator.rank, nullptr);
}

/// Returns an element of a list that is separated by commas.
std::string element_of_list(std::string list, int index) {
  for (int i = 0; i < index; ++i) list.erase(0, list.find(',') + 1);
  return list.substr(0, list.find(','));
}

/// Reports an all-reduce to the plugin, if the plugin has requested collectives.
void report_to_profiler(const ncclComm& communicator, void* recv) {
  constexpr int kCollective = 2;
  const char* const algorithms = std::getenv("BUSBW_PRETENDED_ALGORITHMS");
  if (!algorithms) return;
  const std::string algorithm = element_of_list(algorithms, communicator.rank);
  const bool is_wanted = profiler() && (wanted_events & kCollective);
  if (operation_log()) {
    std::fprintf(operation_log(), is_wanted ? "profiled\n" : "not profiled\n");
    std::fflush(operation_log());
  }
  if (!is_wanted) return;
  busbw::test::GroupCallDescriptor group{.type = 1};
  void* plan = nullptr;
  profiler()->start(nullptr, &plan, &group);
  busbw::test::CollectiveDescriptor<std::uint8_t> event{.type = kCollective,
                                                        .parent = plan,
                                                        .function = "AllReduce",
                                                        .receive = recv,
                                                        .datatype = "ncclFloat32",
                                                        .channels = 4,
                                                        .algorithm = algorithm.c_str(),
                                                        .protocol = "LL128"};
  void* task = nullptr;
  if (plan) profiler()->start(nullptr, &task, &event);
}

void log_config(const ncclConfig_t& config) {
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
  const char* const version_text = std::getenv("BUSBW_PRETENDED_NCCL");
  *version = version_text ? std::atoi(version_text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

/// Fails for versions before 2.19. Exported nevertheless, because the fast-path library exports it for every version.
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

const char* ncclGetErrorString(ncclResult_t) { return "a fake error"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  static int count = 0;
  std::snprintf(id->internal, sizeof id->internal, "%d.%d", static_cast<int>(getpid()), ++count);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank) {
  *communicator = new ncclComm{rank, ranks, rank, is_blocking(NCCL_CONFIG_UNDEF_INT)};
  return (*communicator)->is_blocking ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  log_config(*config);
  *communicator = new ncclComm{rank, ranks, rank, is_blocking(config->blocking)};
  if (busbw::test::FakePeers::are_requested()) {
    (*communicator)->peers = std::make_unique<busbw::test::FakePeers>(id.internal, rank, ranks);
    live_communicators.insert(*communicator);
  }
  if (busbw::test::has_gpu_failed) {
    ncclCommDestroy(std::exchange(*communicator, nullptr));
    return ncclUnhandledCudaError;
  }
  start_profiler(**communicator);
  return (*communicator)->is_blocking ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int ranks, const int* devices) {
  for (int r = 0; r < ranks; ++r) communicators[r] = new ncclComm{r, ranks, devices ? devices[r] : r};
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  live_communicators.erase(communicator);
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const char* const state = std::getenv("BUSBW_PRETENDED_STATE");
  if (!state && communicator->peers && !communicator->peers->have_joined()) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
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
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --group_depth;
  if (group_depth == 0 && !group_streams.empty()) log_launches();
  if (group_depth == 0 && transfer_communicator) {
    transfer_communicator->peers->add_operation(transfer_peers);
    transfer_communicator = nullptr;
    transfer_peers.clear();
  }
  const char* const folder = std::getenv("BUSBW_PRETENDED_MEETING");
  if (folder != nullptr)
    gather_from_processes(folder);
  else
    gather_in_process();
  pending_gathers.clear();
  return std::exchange(has_nonblocking, false) ? ncclInProgress : ncclSuccess;
}
ncclResult_t ncclAllGather(const void* own, void* all, size_t bytes, ncclDataType_t, ncclComm_t communicator,
                           cudaStream_t) {
  pending_gathers.push_back({own, static_cast<char*>(all), bytes, communicator->rank, communicator->ranks});
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void*, void* recv, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t communicator,
                           cudaStream_t stream) {
  if (communicator == nullptr) return ncclInvalidArgument;
  has_nonblocking = has_nonblocking || !communicator->is_blocking;
  report_to_profiler(*communicator, recv);
  return issue_operation(stream);
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t stream) {
  return issue_operation(stream);
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int peer, ncclComm_t communicator, cudaStream_t stream) {
  return issue_transfer(peer, communicator, stream);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int peer, ncclComm_t communicator, cudaStream_t stream) {
  return issue_transfer(peer, communicator, stream);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return issue_operation(stream);
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t stream) {
  return issue_operation(stream);
}
ncclResult_t ncclGather(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return issue_operation(stream);
}
ncclResult_t ncclScatter(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return issue_operation(stream);
}
/// True if all sends and receives have ended. The fake CUDA calls it.
bool pretended_work_has_ended() {
  return std::ranges::all_of(live_communicators, [](ncclComm_t live) { return live->peers->have_finished(); });
}

/// True after the GPU of this process has failed. The fake CUDA calls it.
bool pretended_gpu_has_failed() { return busbw::test::has_gpu_failed; }

/// Declared without arguments, because their types are newer than these headers.
ncclResult_t ncclSignal() { return ncclSuccess; }
}
