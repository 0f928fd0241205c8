// The profiler plugin, loaded and called as NCCL does: every version of the interface, and orders of calls that NCCL's
// documentation does not promise.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/trace/format.hpp"
#include "nccl_caller.hpp"
#include "support_child.hpp"
#include "temporary_folder.hpp"

namespace {
std::atomic<bool> ignores_leaks = false;
}

/// Called by LeakSanitizer, if it is linked, before it searches for leaks at the end of a process.
extern "C" int __lsan_is_turned_off() { return ignores_leaks ? 1 : 0; }

namespace busbw::trace {
namespace {

using namespace busbw::test;
namespace fs = std::filesystem;

/// Folder for traces, and two variables of the recorder, which are unset at the end.
class Recording {
 public:
  explicit Recording(const char* variable = "BUSBW_TRACE_MAX_BYTES", const std::string& value = "4M")
      : variable_(variable) {
    setenv(variable_, value.c_str(), 1);
    setenv("BUSBW_TRACE_DIRECTORY", directory().c_str(), 1);
  }
  ~Recording() {
    unsetenv(variable_);
    unsetenv("BUSBW_TRACE_DIRECTORY");
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  std::string directory() const { return folder_.file("trace"); }
  std::string library() const { return folder_.file("libplugin.so"); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    if (fs::exists(directory()))
      for (const auto& entry : fs::directory_iterator(directory())) files.push_back(entry.path());
    return files;
  }
  std::string bytes() const {
    REQUIRE(files().size() == 1);
    std::ifstream file(files().front(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <class Value>
  Value header(std::size_t offset) const {
    Value value{};
    std::memcpy(&value, bytes().data() + offset, sizeof value);
    return value;
  }

 private:
  TemporaryFolder folder_;
  const char* variable_;
};

/// Plain copy of a record.
template <class Record>
struct Copy {
  alignas(Record) std::array<char, kRecordBytes> bytes;
  const Record* operator->() const { return reinterpret_cast<const Record*>(bytes.data()); }
};

template <class Record>
std::vector<Copy<Record>> records(const Recording& recording, Kind kind) {
  const std::string bytes = recording.bytes();
  std::vector<Copy<Record>> records;
  for (std::size_t at = kHeaderBytes; at + kRecordBytes <= bytes.size(); at += kRecordBytes)
    if (bytes[at] == static_cast<char>(kind))
      std::memcpy(records.emplace_back().bytes.data(), bytes.data() + at, kRecordBytes);
  return records;
}
auto operations(const Recording& recording) { return records<OperationRecord>(recording, Kind::operation); }
auto communicators(const Recording& recording) { return records<CommunicatorRecord>(recording, Kind::communicator); }

TEST_CASE("the plugin records an operation of versions 5 to 7 with all facts that NCCL reports") {
  for (const int version : {5, 6, 7}) {
    CAPTURE(version);
    const Recording recording;
    const Plugin plugin(recording.library());
    const Caller caller(plugin, version);
    caller.operate();
    caller.operate("ReduceScatter", 64);
    CHECK(caller.table.finalize(caller.context) == 0);
    const auto found = operations(recording);
    REQUIRE(found.size() == 2);
    CHECK(found[0]->function == Function::all_reduce);
    CHECK(found[0]->datatype == 7);  // float
    CHECK(found[0]->redop == kUnknownByte);
    CHECK(found[0]->count == 256);
    CHECK(found[0]->communicator == 0);
    CHECK(found[0]->stream == 0);
    CHECK(found[0]->peer == -1);
    CHECK(found[0]->group == 0);
    CHECK(found[0]->algorithm == Algorithm::nvls);
    CHECK(found[0]->protocol == Protocol::simple);
    CHECK(found[0]->channels == 12);
    const bool has_kernels = version < 7;  // the version of NCCL is unknown here
    CHECK(found[0]->device_start_ns == (has_kernels ? 1000 : 0));
    CHECK(found[0]->device_end_ns == (has_kernels ? 3000 : 0));
    CHECK(found[0]->flags == 0);
    CHECK(found[0]->network_steps == kUnknownCount);
    CHECK(found[0]->enqueue_ns >= 1);
    CHECK(found[1]->enqueue_ns >= found[0]->enqueue_ns);
    CHECK(found[1]->function == Function::reduce_scatter);
    const auto members = communicators(recording);
    REQUIRE(members.size() == 1);
    CHECK(members[0]->id == 77);
    CHECK(members[0]->has_id == 1);
    CHECK(members[0]->rank == 1);
    CHECK(members[0]->size == 4);
    CHECK(members[0]->nodes == 2);
    CHECK(std::string(members[0]->name.data()) == "group");
    CHECK(recording.header<std::uint8_t>(offsetof(Header, plugin_interface)) == version);
    CHECK((caller.mask & kKernel) == (has_kernels ? 64 : 0));
    CHECK(recording.header<std::uint8_t>(offsetof(Header, device_clock)) == (has_kernels ? 2 : 0));
    CHECK((caller.mask & 0x707) == 0x707);
    CHECK((caller.mask & (kProxy | 0x10 | 0x20 | 0x80)) == 0);
    CHECK(((caller.mask & kCopyEngine) != 0) == (version >= 6));
  }
}

template <int version, class Collective, class Transfer>
void launch_tasks(const Plugin& plugin, Collective collective, Transfer transfer) {
  const EarlyCaller<version> caller(plugin);
  caller.launch(collective, transfer);
  caller.launch(transfer);
  CHECK((caller.mask & 0xff00) == 0);
  CHECK((caller.mask & kKernel) == 0);
  CHECK(caller.table.finalize(caller.context) == 0);
}

TEST_CASE("the plugin records operations of versions 1 to 3") {
  for (const int version : {1, 2, 3}) {
    CAPTURE(version);
    const Recording recording;
    const Plugin plugin(recording.library());
    char buffer[64];
    if (version == 1)
      launch_tasks<1>(plugin, CollectiveDescriptorV1{kCollective, nullptr, 2, "name", 99, 5, 2, buffer, buffer, 4096,
                                                     1,           0,       0, 9,      8,  4, 1, 2,      0,      0},
                      TransferDescriptorV1{kTransfer, nullptr, 2, "name", 99, 6, buffer, 9, 33, 3});
    else if (version == 2)
      launch_tasks<2>(plugin,
                      CollectiveDescriptorV2{kCollective, nullptr, 2, "name", 99, 5, "AllGather", buffer, buffer, 4096,
                                             1, "ncclInt8", 7, 8, 4, "RING", "SIMPLE"},
                      TransferDescriptorV2{kTransfer, nullptr, 2, "name", 99, "Send", buffer, "ncclBfloat16", 33, 3});
    else
      launch_tasks<3>(plugin,
                      CollectiveDescriptorV3{kCollective, nullptr, 2, "name", 99, 5, "AllGather", buffer, buffer, 4096,
                                             1, "ncclInt8", 8, 4, "RING", "SIMPLE"},
                      TransferDescriptorV2{kTransfer, nullptr, 2, "name", 99, "Send", buffer, "ncclBfloat16", 33, 3});
    const auto found = operations(recording);
    REQUIRE(found.size() == 3);
    CHECK(found[0]->function == Function::all_gather);
    CHECK(found[0]->datatype == 0);
    CHECK(found[0]->count == 4096);
    CHECK(found[0]->flags == (kCountIsInBytes | kIsInPlaceKnown));  // rank 2 receives at another place
    CHECK(found[0]->peer == -1);
    CHECK(found[0]->group == 1);
    CHECK(found[0]->algorithm == Algorithm::ring);
    CHECK(found[0]->protocol == Protocol::simple);
    CHECK(found[0]->channels == 8);
    CHECK(found[0]->stream == kUnknownIndex);
    CHECK(found[1]->function == Function::send);
    CHECK(found[1]->datatype == 9);
    CHECK(found[1]->count == 33);
    CHECK(found[1]->peer == 3);
    CHECK(found[1]->group == 1);
    CHECK(found[1]->algorithm == Algorithm::unknown);
    CHECK(found[1]->channels == kUnknownByte);
    CHECK(found[2]->group == 0);
    const auto members = communicators(recording);
    REQUIRE(members.size() == 1);
    CHECK(members[0]->id == 99);
    CHECK(members[0]->rank == 2);
    CHECK(members[0]->size == -1);
    CHECK(std::string(members[0]->name.data()) == "name");
    CHECK(recording.header<std::uint8_t>(offsetof(Header, device_clock)) == 0);
  }
}

TEST_CASE("the plugin records operations of version 4 with times of the device") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const EarlyCaller<4> caller(plugin);
  char buffer[64];
  const auto handles = caller.launch(CollectiveDescriptor<std::uint8_t>{.type = kCollective,
                                                                        .function = "AllReduce",
                                                                        .send = buffer,
                                                                        .receive = buffer,
                                                                        .count = 12,
                                                                        .datatype = "Unknown",
                                                                        .channels = 2,
                                                                        .algorithm = "TREE",
                                                                        .protocol = "LL128"});
  for (const std::uint64_t channel : {0, 1}) caller.kernel(handles.front(), 500 - channel, 900 - channel);
  caller.launch(TransferDescriptor<std::uint8_t>{
      .type = kTransfer, .function = "Recv", .datatype = "ncclFloat64", .count = 7, .peer = 0, .channels = 200});
  const auto found = operations(recording);
  REQUIRE(found.size() == 2);
  CHECK(found[0]->datatype == 1);  // NCCL has no name for uint8
  CHECK(found[0]->flags == (kInPlace | kIsInPlaceKnown));
  CHECK(found[0]->protocol == Protocol::ll128);
  CHECK(found[0]->device_start_ns == 500);
  CHECK(found[0]->device_end_ns == 900);
  CHECK(found[1]->peer == 0);
  CHECK(found[1]->channels == kUnknownByte);  // NCCL's adapter for version 4 does not set it
  CHECK(recording.header<std::uint8_t>(offsetof(Header, plugin_interface)) == 4);
}

TEST_CASE("the plugin numbers groups, and keeps the calls of one NCCL function together") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  const auto transfer = [&](void* group, const char* function, int peer) {
    void* const call = caller.start(TransferCallDescriptor{
        .type = kTransferCall, .parent = group, .function = function, .count = 3, .datatype = "ncclInt64"});
    caller.start(TransferDescriptor<std::uint64_t>{.type = kTransfer,
                                                   .parent = call,
                                                   .function = function,
                                                   .datatype = "ncclInt64",
                                                   .count = 3,
                                                   .peer = peer,
                                                   .channels = 2});
  };
  void* group = caller.group(2);
  caller.call(group, "Broadcast", 1);
  caller.table.stop(group);
  group = caller.group(1);  // alltoall
  transfer(group, "Send", 0);
  transfer(group, "Recv", 0);
  caller.table.stop(group);
  caller.operate();
  const auto found = operations(recording);
  REQUIRE(found.size() == 4);
  CHECK(found[0]->group == 1);
  CHECK(found[0]->peer == 0);  // its root
  CHECK(found[1]->group == 2);
  CHECK(found[2]->group == 2);
  CHECK(found[1]->function == Function::send);
  CHECK(found[2]->function == Function::recv);
  CHECK(found[2]->peer == 0);
  CHECK(found[2]->channels == 2);
  CHECK(found[3]->group == 0);
}

TEST_CASE("the plugin gives each launch of a graph records of its own") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  int stream = 0;
  void* const group = caller.group(2);
  void* const first = caller.call(group, "AllReduce", 10, true, &stream);
  void* const second = caller.call(group, "AllGather", 20, true, &stream);
  caller.table.stop(group);
  for (int launch = 0; launch < 3; ++launch) {
    void* const plan = caller.plan();
    caller.kernel(caller.task(first, plan), 100 + launch, 200 + launch);
    caller.task(second, plan, "AllGather");
    caller.table.stop(plan);
  }
  const auto found = operations(recording);
  REQUIRE(found.size() == 8);
  CHECK(found[0]->flags == kCaptured);
  CHECK(found[0]->algorithm == Algorithm::unknown);
  CHECK(found[0]->device_start_ns == 0);
  for (std::size_t launch = 0; launch < 3; ++launch) {
    CAPTURE(launch);
    const auto& replay = found[2 + 2 * launch];
    CHECK(replay->flags == kGraphReplay);
    CHECK(replay->count == 10);
    CHECK(replay->stream == found[0]->stream);
    CHECK(replay->algorithm == Algorithm::nvls);
    CHECK(replay->device_start_ns == 100 + launch);
    CHECK(replay->group == 2 + launch);
    CHECK(found[3 + 2 * launch]->group == 2 + launch);
    CHECK(found[3 + 2 * launch]->function == Function::all_gather);
    CHECK(found[3 + 2 * launch]->datatype == 7);  // of the call, not of the task, which is in bytes
  }
}

TEST_CASE("the plugin detects in-place operations by the buffers of the collective") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  std::vector<char> buffer(256);
  char* const own = buffer.data() + 40;  // rank 1, 10 floats
  const auto operate = [&](const char* function, void* send, void* receive) {
    caller.task(caller.call(caller.group(1), function, 10), nullptr, function, send, receive);
  };
  operate("AllGather", own, buffer.data());
  operate("AllGather", buffer.data(), buffer.data());
  operate("ReduceScatter", buffer.data(), own);
  operate("ReduceScatter", buffer.data(), buffer.data());
  operate("Reduce", own, own);
  operate("AllReduce", own, buffer.data());
  operate("Gather", own, own);
  operate("AllReduce", nullptr, own);
  const auto found = operations(recording);
  std::vector<int> flags;
  for (const auto& record : found) flags.push_back(record->flags);
  const int in_place = kInPlace | kIsInPlaceKnown;
  CHECK(flags ==
        std::vector<int>{in_place, kIsInPlaceKnown, in_place, kIsInPlaceKnown, in_place, kIsInPlaceKnown, 0, 0});
}

TEST_CASE("the plugin takes the latest start and the latest end, and ignores missing stamps") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  void* const task = caller.task(caller.call(caller.group(1), "AllReduce", 10), nullptr);
  caller.table.stop(task);
  caller.table.finalize(caller.context);  // all that follows is late
  caller.kernel(task, 50, 60);
  caller.kernel(task, 40, 55);
  caller.kernel(task, 0, 0);
  caller.start(KernelDescriptor<std::uint64_t>{.type = kKernel, .parent = task, .timer = 45});  // never stops
  caller.table.state(task, kKernelStop, nullptr);
  const auto found = operations(recording);
  REQUIRE(found.size() == 1);
  CHECK(found[0]->device_start_ns == 50);
  CHECK(found[0]->device_end_ns == 60);
}

TEST_CASE("the plugin names symmetric kernels and copy engines") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin, 7);
  CollectiveDescriptor<std::uint64_t> task{.type = kCollective,
                                           .parent = caller.call(caller.group(1), "AllReduce", 10),
                                           .function = "AllReduce",
                                           .datatype = "ncclFloat32",
                                           .channels = 0,
                                           .algorithm = "AGxLL_R",
                                           .protocol = "",
                                           .variant = "AGxLL_R",
                                           .is_symmetric = true};
  caller.start(task);
  caller.start(CopyEngineDescriptor{
      .type = kCopyEngine, .parent = caller.call(caller.group(1), "AllGather", 10), .function = "AllGather"});
  const auto found = operations(recording);
  REQUIRE(found.size() == 2);
  CHECK(found[0]->algorithm == Algorithm::symmetric);
  CHECK(found[0]->protocol == Protocol::unknown);
  CHECK(found[0]->channels == kUnknownByte);
  CHECK(found[1]->algorithm == Algorithm::copy_engine);
  CHECK(found[1]->function == Function::all_gather);
}

TEST_CASE("the plugin counts transfers of the network only if asked, and only those of its process") {
  for (const bool is_asked : {false, true}) {
    const Recording recording("BUSBW_TRACE_NETWORK", is_asked ? "on" : "off");
    const Plugin plugin(recording.library());
    const Caller caller(plugin);
    CHECK(((caller.mask & kProxy) != 0) == is_asked);
    void* const task = caller.task(caller.call(caller.group(1), "AllReduce", 10), nullptr);
    const auto transfer = [&](int pid, int steps, int is_send) {
      return caller.start(ProxyDescriptor<std::uint64_t>{
          .type = kProxy, .parent = task, .pid = pid, .steps = steps, .is_send = is_send});
    };
    if (is_asked) {
      CHECK(transfer(getpid(), 5, 1) == nullptr);
      transfer(getpid(), 6, 1);
      transfer(getpid(), 100, 0);
      transfer(getpid() + 1, 1000, 1);
    }
    const auto found = operations(recording);
    REQUIRE(found.size() == 1);
    CHECK(found[0]->network_steps == (is_asked ? 11 : kUnknownCount));
  }
}

TEST_CASE("operations of several communicators and threads are recorded together") {
  const Recording recording("BUSBW_TRACE_MAX_BYTES", "64M");
  const Plugin plugin(recording.library());
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kOperations = 2000;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        const Caller caller(plugin, 5, 100 + thread, static_cast<int>(thread));
        for (std::uint64_t index = 0; index < kOperations; ++index) {
          void* const task = caller.task(
              caller.call(caller.group(1), "AllReduce", index, false, reinterpret_cast<void*>(thread * 64)), nullptr);
          // Another thread completes the operation at the same time.
          if (index % 500 == 0) std::jthread([&] { caller.kernel(task, 7, 9); });
          caller.kernel(task, 8, 10);
        }
      });
  }
  const auto found = operations(recording);
  CHECK(found.size() == kThreads * kOperations);
  std::vector<std::vector<std::uint64_t>> counts(kThreads);
  for (const auto& record : found) {
    REQUIRE(record->communicator < kThreads);
    CHECK(record->device_start_ns == 8);
    CHECK(record->device_end_ns == 10);
    counts[record->communicator].push_back(record->count);
  }
  // The operations of a communicator keep the order of its calls.
  for (const auto& own : counts) CHECK(std::ranges::is_sorted(own));
  std::vector<std::uint64_t> ids;
  for (const auto& record : communicators(recording)) ids.push_back(record->id);
  std::ranges::sort(ids);
  CHECK(ids == std::vector<std::uint64_t>{100, 101, 102, 103});
}

TEST_CASE("unloading the plugin between communicators continues the trace") {
  const Recording recording;
  Plugin plugin(recording.library());
  Caller(plugin).operate();
  plugin.close();
  void* const library = dlopen(recording.library().c_str(), RTLD_NOW);
  auto* const table = static_cast<const PluginTable<FifthInit>*>(dlsym(library, "ncclProfiler_v5"));
  void* context = nullptr;
  int mask = 0;
  CHECK(table->init(&context, 78, &mask, "later", 1, 2, 0, nullptr) == 0);
  CHECK(operations(recording).size() == 1);
  CHECK(communicators(recording).size() == 2);
  CHECK(communicators(recording)[1]->communicator == 1);
}

TEST_CASE("the plugin loses operations beyond the size limit, and counts them") {
  const Recording recording("BUSBW_TRACE_MAX_BYTES", "8K");  // 64 records, one for the communicator
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  for (int index = 0; index < 100; ++index) caller.operate();
  CHECK(operations(recording).size() == 63);
  CHECK(recording.header<std::uint64_t>(offsetof(Header, lost_count)) == 37);
}

TEST_CASE("a forked child leaves the trace of its parent alone, and starts its own") {
  const Recording recording;
  const Plugin plugin(recording.library());
  const Caller caller(plugin);
  void* const task = caller.task(caller.call(caller.group(1), "AllReduce", 10), nullptr);
  const int status = status_of_child([&] {
    caller.operate();
    caller.kernel(task, 5, 6);
    if (recording.files().size() != 1) _exit(1);
    Caller own(plugin);
    own.operate();
    caller.operate();  // of the parent, thus lost
    if (recording.files().size() != 2) _exit(2);
  });
  CHECK(status == 0);
  for (const auto& file : recording.files()) {
    std::ifstream stream(file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    std::int64_t operation_count = 0;
    for (std::size_t at = kHeaderBytes; at < bytes.size(); at += kRecordBytes)
      operation_count += bytes[at] == static_cast<char>(Kind::operation) ? 1 : 0;
    CHECK(operation_count == 1);
    OperationRecord* const first = reinterpret_cast<OperationRecord*>(bytes.data() + kHeaderBytes + kRecordBytes);
    CHECK(first->device_start_ns != 5);
  }
}

TEST_CASE("callbacks during the exit of the process are harmless, and the trace is closed") {
  const Recording recording;
  const int status = status_of_child([&] {
    ignores_leaks = true;  // of a thread that still runs
    const Plugin plugin(recording.library());
    static std::atomic<bool> has_started = false;
    std::thread([&] {
      const Caller caller(plugin);
      while (true) {
        caller.operate();
        has_started = true;
      }
    }).detach();
    while (!has_started) std::this_thread::yield();
    std::exit(0);  // NOLINT: the test is about exit handlers
  });
  CHECK(status == 0);
  CHECK(recording.header<std::uint8_t>(offsetof(Header, is_closed)) == 1);
  CHECK_FALSE(operations(recording).empty());
}

TEST_CASE("the plugin does not fail a job that it cannot record") {
  struct Case {
    std::string directory, value;
  };
  const TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "text";
  for (const Case& each : {Case{folder.file("file"), "auto"}, Case{folder.path(), "sometimes"}, Case{"", "auto"}}) {
    const Recording recording("BUSBW_TRACE_DEVICE_TIMES", each.value);
    setenv("BUSBW_TRACE_DIRECTORY", each.directory.c_str(), 1);
    const Plugin plugin(recording.library());
    const Caller caller(plugin);
    CHECK(caller.mask == 0);
    CHECK(caller.context == nullptr);
    caller.operate();
    caller.table.finalize(caller.context);
    CHECK(fs::directory_iterator(folder.path())->path().filename() == "file");
  }
}

TEST_CASE("the plugin asks for device times only where NCCL gives them cheaply, unless told") {
  struct Case {
    const char* library;
    std::string value;
    bool has_kernels;
    int version;
  };
  for (const Case& each : {Case{BUSBW_FAKE_PROFILED_NCCL_2_28, "auto", true, 22809},
                           Case{BUSBW_FAKE_PROFILED_NCCL_2_31_1, "auto", true, 23101},
                           Case{BUSBW_FAKE_PROFILED_NCCL_2_31_2, "auto", false, 23102},
                           Case{BUSBW_FAKE_PROFILED_NCCL_2_31_2, "on", true, 23102},
                           Case{BUSBW_FAKE_PROFILED_NCCL_2_28, "off", false, 22809}}) {
    CAPTURE(each.library);
    CAPTURE(each.value);
    const Recording recording("BUSBW_TRACE_DEVICE_TIMES", each.value);
    const Plugin plugin(recording.library());
    auto* const initialize = reinterpret_cast<int (*)(FifthInit*, void**, int*)>(
        dlsym(dlopen(each.library, RTLD_NOW | RTLD_LOCAL), "initialize"));
    REQUIRE((initialize != nullptr));
    void* context = nullptr;
    int mask = 0;
    CHECK(initialize(plugin.table<FifthInit>(7).init, &context, &mask) == 0);
    CHECK(((mask & kKernel) != 0) == each.has_kernels);
    CHECK(recording.header<std::uint32_t>(offsetof(Header, nccl_version)) == static_cast<std::uint32_t>(each.version));
  }
}

TEST_CASE("no sequence of callbacks harms the plugin or writes an invalid record") {
  const Recording recording;
  const Plugin plugin(recording.library());
  std::mt19937 random(29);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  std::vector<void*> contexts{nullptr};
  std::vector<void*> handles{nullptr};
  char buffer[64];
  const std::vector<const char*> functions{"AllReduce", "AllGather", "Send", "Recv", "Strange", "", nullptr};
  const std::vector<const char*> datatypes{"ncclFloat32", "ncclBfloat16", "Unknown", "other", nullptr};
  const auto& table = plugin.table<FifthInit>(7);
  for (int step = 0; step < 60'000; ++step) {
    void* const context = contexts[below(contexts.size())];
    void* handle = handles[below(handles.size())];
    void* const other = handles[below(handles.size())];
    const char* const function = functions[below(functions.size())];
    const char* const datatype = datatypes[below(datatypes.size())];
    std::uint64_t stamp = below(1000);
    void* result = handle;
    switch (below(contexts.size() < 5 ? 9 : 8)) {
      case 0: {
        GroupCallDescriptor event{.type = kGroupCall, .parent = handle, .depth = static_cast<int>(below(3))};
        table.start(context, &result, &event);
        break;
      }
      case 1: {
        CollectiveCallDescriptor event{.type = kCollectiveCall,
                                       .parent = handle,
                                       .function = function,
                                       .count = stamp,
                                       .datatype = datatype,
                                       .root = -1,
                                       .stream = buffer + below(60),
                                       .is_captured = below(4) == 0};
        table.start(context, &result, &event);
        break;
      }
      case 2: {
        TransferCallDescriptor event{.type = kTransferCall,
                                     .parent = handle,
                                     .function = function,
                                     .count = stamp,
                                     .datatype = datatype,
                                     .is_captured = below(4) == 0};
        table.start(context, &result, &event);
        break;
      }
      case 3: {
        CollectiveDescriptor<std::uint64_t> event{.type = below(3) == 0 ? kGroup : kCollective,
                                                  .parent = handle,
                                                  .rank = 1,
                                                  .function = function,
                                                  .send = buffer,
                                                  .receive = buffer,
                                                  .datatype = datatype,
                                                  .channels = static_cast<std::uint8_t>(stamp),
                                                  .algorithm = function,
                                                  .protocol = "LL",
                                                  .parent_group = other,
                                                  .is_symmetric = below(2) == 0};
        table.start(context, &result, &event);
        break;
      }
      case 4: {
        KernelDescriptor<std::uint64_t> event{
            .type = below(8) == 0 ? std::uint64_t{1} << 15 : kKernel, .parent = handle, .timer = stamp};
        table.start(context, &result, &event);
        break;
      }
      case 5: {
        ProxyDescriptor<std::uint64_t> event{
            .type = kProxy, .parent = handle, .pid = getpid(), .steps = 3, .is_send = 1};
        table.start(context, &result, &event);
        break;
      }
      case 6: table.state(handle, static_cast<int>(20 + below(5)), below(2) == 0 ? nullptr : &stamp); break;
      case 7: below(50) == 0 ? table.finalize(context) : table.stop(handle); break;
      default: {
        int mask = 0;
        table.init(&result, stamp, &mask, function, 1, 2, 1, nullptr);
        contexts.push_back(result);
        result = nullptr;
      }
    }
    if (handles.size() < 400)
      handles.push_back(result);
    else
      handles[below(handles.size())] = result;
  }
  const auto found = operations(recording);
  const std::size_t communicator_count = communicators(recording).size();
  CHECK(communicator_count == 4);  // and one context of null
  CHECK(found.size() > 5000);
  for (const auto& record : found) {
    CHECK((record->function <= Function::wait_signal || record->function == Function::other));
    CHECK((record->datatype < 12 || record->datatype == kUnknownByte));
    CHECK(record->communicator < communicator_count);
    CHECK((record->device_end_ns == 0 || record->device_end_ns < 1000));
    CHECK((record->protocol == Protocol::ll || record->protocol == Protocol::unknown));
    CHECK((record->flags & ~31) == 0);
  }
}

}  // namespace
}  // namespace busbw::trace
