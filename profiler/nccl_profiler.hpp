#pragma once
// Interfaces between NCCL and profiler plugins, versions 1 (NCCL 2.23) to 7 (2.31), as far as this plugin reads them.
// The order and the types of the members are NCCL's. Where NCCL only appends members, one type serves several
// versions. Template parameters stand for members that NCCL changed or removed.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace busbw::profiler {

/// Bits of the mask of wanted events, and values of `type` of a descriptor.
enum EventType : std::uint64_t {
  kGroup = 1 << 0,       // a plan: the tasks of one kernel (recorder.hpp)
  kCollective = 1 << 1,  // enqueued, with the chosen algorithm
  kTransfer = 1 << 2,    // enqueued send or receive
  kProxyOperation = 1 << 3,  // network transfers of an operation
  kKernelChannel = 1 << 6,   // one channel of a kernel, with the GPU's times
  kGroupCall = 1 << 8,       // a group: the calls between its start and its end
  kCollectiveCall = 1 << 9,  // as the program called it
  kTransferCall = 1 << 10,
  kCopyEngineCollective = 1 << 12,  // enqueued, without a kernel
};

/// Events of an observation. NCCL does not report collectives without their groups.
inline constexpr int kObservedEvents = kGroup | kCollective | kCopyEngineCollective;

/// State of a kernel-channel event that reports the end of the kernel.
inline constexpr int kKernelChannelStop = 22;

// --- members of descriptors ---

// `RemovedMembers` of Collective: `Nothing` since version 3, `Traffic` in version 2, `RedopAndTraffic` in version 1.
struct Nothing {};
struct Traffic {
  std::size_t bytes;
};
struct RedopAndTraffic {
  std::uint32_t redop;
  std::size_t bytes;
};
/// `NameType`: a number in version 1, a text since version 2. An empty `RemovedMembers` takes no space, so that the
/// members after it have NCCL's offsets.
template <class NameType, class RemovedMembers>
struct Collective {
  std::uint64_t sequence_number;
  NameType function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  NameType datatype;
  [[no_unique_address]] RemovedMembers removed;
  std::uint8_t channels;
  std::uint8_t warps;
  NameType algorithm;
  NameType protocol;
  void* plan;           // handle of the kGroup event, since version 5
  const char* variant;  // since version 7
  bool is_symmetric;    // since version 7
};
template <class NameType>
struct Transfer {
  NameType function;
  void* buffer;
  NameType datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;  // since version 4
  void* plan;             // since version 5
};
/// An event before version 4, which names its communicator.
template <class Event>
struct WithCommunicator {
  const char* name;
  std::uint64_t id;
  Event event;
};
struct ProxyOperation {
  pid_t pid;  // of the process that issued the operation
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t gpu_ns;  // since version 4
};
struct GroupCall {
  bool is_captured;
  int depth;  // 1: without ncclGroupStart of the program
};
struct CollectiveCall {
  const char* function;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct TransferCall {
  const char* function;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool is_captured;
};
/// Since version 6.
struct CopyEngineCollective {
  std::uint64_t sequence_number;
  const char* function;
  const void* send;
  void* receive;
};

/// Description of an event, valid during the call. `Type` has 8 bits before version 5.
template <class Type, class CollectiveEvent, class TransferEvent>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    CollectiveEvent collective;
    TransferEvent transfer;
    ProxyOperation proxy_operation;
    KernelChannel kernel_channel;    // since version 3
    GroupCall group_call;            // since version 5
    CollectiveCall collective_call;  // since version 5
    TransferCall transfer_call;      // since version 5
    CopyEngineCollective copy_engine_collective;  // since version 6
  };
};
using CollectiveV4 = Collective<const char*, Nothing>;
using TransferV4 = Transfer<const char*>;
using DescriptorV1 = Descriptor<std::uint8_t, WithCommunicator<Collective<std::uint8_t, RedopAndTraffic>>,
                                WithCommunicator<Transfer<std::uint8_t>>>;
using DescriptorV2 =
    Descriptor<std::uint8_t, WithCommunicator<Collective<const char*, Traffic>>, WithCommunicator<TransferV4>>;
using DescriptorV3 = Descriptor<std::uint8_t, WithCommunicator<CollectiveV4>, WithCommunicator<TransferV4>>;
using DescriptorV4 = Descriptor<std::uint8_t, CollectiveV4, TransferV4>;
using DescriptorV5 = Descriptor<std::uint64_t, CollectiveV4, TransferV4>;

/// Arguments of a state. NCCL passes null for some states.
union StateArguments {
  std::uint64_t gpu_ns;  // of kKernelChannelStop, since version 4
  std::size_t transferred_bytes;
};

/// NCCL's function for log lines.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, std::uint64_t id, int nodes, int ranks, int rank,
                   Logger);
using InitV5 = int(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                   Logger);

/// A table of functions, which NCCL finds by its name `ncclProfiler_v<version>`. The functions return 0 for success.
template <class Init, class EventDescriptor>
struct PluginInterface {
  const char* name;
  Init* init;
  int (*start_event)(void* context, void** handle, EventDescriptor*);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, StateArguments*);
  int (*finalize)(void* context);
};
using InterfaceV1 = PluginInterface<InitV1, DescriptorV1>;
using InterfaceV2 = PluginInterface<InitV1, DescriptorV2>;
using InterfaceV3 = PluginInterface<InitV1, DescriptorV3>;
using InterfaceV4 = PluginInterface<InitV4, DescriptorV4>;
using InterfaceV5 = PluginInterface<InitV5, DescriptorV5>;  // also versions 6 and 7

}  // namespace busbw::profiler
