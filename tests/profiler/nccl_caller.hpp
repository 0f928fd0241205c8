#pragma once
// Callers of the plugin that report events under NCCL's conditions: the mask and the handles of parents.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nccl_events.hpp"

namespace busbw::test {

enum : std::uint64_t {
  kGroup = 1,
  kCollective = 2,
  kTransfer = 4,
  kProxy = 8,
  kProxyStep = 16,
  kKernel = 64,
  kNetwork = 128,
  kGroupCall = 256,
  kCollectiveCall = 512,
  kTransferCall = 1024,
  kKernelLaunch = 2048,
  kCopyEngine = 4096
};
inline constexpr int kKernelStop = 22;

/// Bits of the mask for which NCCL 2.28 and later report an event: those of its type and of the types below it.
constexpr std::uint64_t bits_that_start(std::uint64_t type) {
  constexpr std::uint64_t kProxies = kProxy | kProxyStep | kNetwork;
  constexpr std::uint64_t kCollectives = kCollective | kKernel | kProxies;
  constexpr std::uint64_t kTransfers = kTransfer | kKernel | kProxies;
  switch (type) {
    case kGroupCall:
      return kGroupCall | kCollectiveCall | kTransferCall | kKernelLaunch | kGroup | kCollectives | kTransfers |
             kCopyEngine;
    case kCollectiveCall: return kCollectiveCall | kCollectives | kCopyEngine;
    case kTransferCall: return kTransferCall | kTransfers;
    case kGroup: return kGroup | kCollectives | kTransfers;
    case kCollective: return kCollectives;
    case kTransfer: return kTransfers;
    case kProxy: return kProxies;
    default: return type;
  }
}

/// A copy of the plugin with state of its own, because the loader shares libraries by their file.
class Plugin {
 public:
  explicit Plugin(const std::string& copy) {
    std::filesystem::copy_file(BUSBW_PROFILER, copy);
    library_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library_ != nullptr, std::string(dlerror()));
  }
  template <class Init>
  const PluginTable<Init>& table(int version) const {
    auto* const table =
        static_cast<const PluginTable<Init>*>(dlsym(library_, ("ncclProfiler_v" + std::to_string(version)).c_str()));
    REQUIRE(table != nullptr);
    return *table;
  }
  void close() { dlclose(library_); }

 private:
  void* library_;
};

/// Calls a plugin as NCCL 2.28 and later do, with one communicator. Only wanted events are reported.
class Caller {
 public:
  const PluginTable<FifthInit>& table;
  void* context = nullptr;
  int mask = 0;

  explicit Caller(const Plugin& plugin, int version = 5, std::uint64_t id = 77, int rank = 1)
      : table(plugin.table<FifthInit>(version)) {
    CHECK(table.init(&context, id, &mask, "group", 2, 4, rank, nullptr) == 0);
  }
  template <class Descriptor>
  void* start(Descriptor descriptor) const {
    if ((static_cast<std::uint64_t>(mask) & bits_that_start(descriptor.type)) == 0) return nullptr;
    void* handle = &descriptor;  // as NCCL, which reuses variables
    CHECK(table.start(context, &handle, &descriptor) == 0);
    return handle;
  }
  void stop(void* handle) const {
    if (handle != nullptr) table.stop(handle);
  }
  void* group(int depth) const { return start(GroupCallDescriptor{.type = kGroupCall, .depth = depth}); }
  void* call(void* group, const char* function, std::size_t count, bool is_captured = false,
             void* stream = nullptr) const {
    return start(CollectiveCallDescriptor{.type = kCollectiveCall,
                                          .parent = group,
                                          .function = function,
                                          .count = count,
                                          .datatype = "ncclFloat32",
                                          .root = 0,
                                          .stream = stream,
                                          .is_captured = is_captured});
  }
  void* plan() const { return start(CollectiveDescriptor<std::uint64_t>{.type = kGroup}); }
  void* task(void* call, void* plan, const char* function = "AllReduce", const void* send = nullptr,
             void* receive = nullptr) const {
    return start(CollectiveDescriptor<std::uint64_t>{.type = kCollective,
                                                     .parent = call,
                                                     .rank = 1,
                                                     .function = function,
                                                     .send = send,
                                                     .receive = receive,
                                                     .count = 1,
                                                     .root = 0,
                                                     .datatype = "ncclInt8",
                                                     .channels = 12,
                                                     .algorithm = "NVLS",
                                                     .protocol = "SIMPLE",
                                                     .parent_group = plan});
  }
  void kernel(void* task, std::uint64_t start_ns, std::uint64_t end_ns) const {
    void* const handle = start(KernelDescriptor<std::uint64_t>{.type = kKernel, .parent = task, .timer = start_ns});
    if (handle == nullptr) return;
    table.state(handle, kKernelStop, &end_ns);
    table.stop(handle);
  }
  /// One whole operation, as NCCL does it without a group of the program.
  void operate(const char* function = "AllReduce", std::size_t count = 256) const {
    void* const outer = group(1);
    void* const api = call(outer, function, count);
    stop(api);
    void* const inner = plan();
    void* const handle = task(api, inner, function);
    stop(handle);
    stop(inner);
    stop(outer);
    kernel(handle, 1000, 3000);
  }
};

/// Calls a plugin as NCCL 2.23 to 2.27 do, with one communicator. They report tasks only within a plan with a handle.
/// `version`: of the interface; 4 is that of 2.27.
template <int version>
class EarlyCaller {
 public:
  const PluginTable<std::conditional_t<version == 4, FourthInit, FirstInit>>& table;
  void* context = nullptr;
  int mask = 0;

  explicit EarlyCaller(const Plugin& plugin)
      : table(plugin.table<std::conditional_t<version == 4, FourthInit, FirstInit>>(version)) {
    if constexpr (version == 4)
      CHECK(table.init(&context, &mask, nullptr, 5, 1, 2, 0, nullptr) == 0);
    else
      CHECK(table.init(&context, &mask) == 0);
  }
  /// Launches the tasks of one plan, and returns their handles, null for those without an event.
  template <class... Descriptor>
  std::vector<void*> launch(Descriptor... tasks) const {
    constexpr std::uint64_t kProxies = kProxy | kProxyStep;
    constexpr std::uint64_t kPlanBits = kCollective | kTransfer | kProxies | (version >= 3 ? kGroup | kKernel : 0);
    void* plan = nullptr;
    if (has(kPlanBits)) plan = start(CollectiveDescriptor<std::uint8_t>{.type = kGroup});
    const std::vector<void*> handles{start_task(tasks, plan)...};
    for (void* const handle : handles)
      if (plan != nullptr && (version < 3 || handle != nullptr)) table.stop(handle);
    if (plan != nullptr) table.stop(plan);
    return handles;
  }
  void kernel(void* task, std::uint64_t start_ns, std::uint64_t end_ns) const {
    if (!has(kKernel)) return;
    void* const handle = start(KernelDescriptor<std::uint8_t>{.type = kKernel, .parent = task, .timer = start_ns});
    table.state(handle, kKernelStop, &end_ns);
    table.stop(handle);
  }

 private:
  bool has(std::uint64_t bits) const { return (static_cast<std::uint64_t>(mask) & bits) != 0; }
  template <class Descriptor>
  void* start(Descriptor descriptor) const {
    void* handle = nullptr;
    CHECK(table.start(context, &handle, &descriptor) == 0);
    return handle;
  }
  template <class Descriptor>
  void* start_task(Descriptor descriptor, void* plan) const {
    constexpr std::uint64_t kProxies = kProxy | kProxyStep;
    const std::uint64_t own = version < 3 ? std::uint64_t{kCollective} : descriptor.type | kKernel;
    if (plan == nullptr || !has(own | kProxies)) return nullptr;
    descriptor.parent = plan;
    return start(descriptor);
  }
};

}  // namespace busbw::test
