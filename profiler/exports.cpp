// The plugin's tables of functions, one for each version of NCCL's interface. They translate events for the recorder.
#include <string_view>
#include <type_traits>

#include "profiler/names.hpp"
#include "profiler/nccl_profiler.hpp"
#include "profiler/observation.hpp"
#include "profiler/recorder.hpp"

namespace busbw::profiler {
namespace {

// Converts a member of type `NameType` (nccl_profiler.hpp) to an argument for the functions of names.hpp.
std::string_view name_or_number(const char* name) { return name == nullptr ? std::string_view() : name; }
std::uint8_t name_or_number(std::uint8_t number) { return number; }

template <class NameType, class RemovedMembers>
Task task_of(const Collective<NameType, RemovedMembers>& event, int rank) {
  Task task{.root_or_peer = event.root,
            .rank = rank,
            .algorithm = algorithm_of(name_or_number(event.algorithm)),
            .protocol = protocol_of(name_or_number(event.protocol)),
            .channels = event.channels,
            .send = event.send,
            .receive = event.receive};
  // Since 2.27 symmetric kernels have no algorithm. NCCL then reports the first of its list, tree, without channels.
  const bool is_symmetric_kernel = task.algorithm == trace::Algorithm::tree && task.channels == 0;
  if (is_symmetric_kernel) {
    task.algorithm = trace::Algorithm::unknown;
    task.protocol = trace::Protocol::unknown;
  }
  return task;
}

template <class NameType>
Task task_of(const Transfer<NameType>& event, int rank) {
  return {.root_or_peer = event.peer, .rank = rank};
}

template <class Event>
Call call_of(const Event& event) {
  return {.function = function_of(name_or_number(event.function)),
          .datatype = datatype_of(name_or_number(event.datatype)),
          .count = event.count};
}

/// Starts a task in versions 1 to 4, which do not report calls. `plan`: handle of the kGroup event of the task.
template <class Event>
void* start_task(void* context, void* plan, const Event& event, int rank) {
  const Task task = task_of(event, rank);
  report(task);
  return Recorder::instance().start_task(context, plan, call_of(event), task);
}

/// In versions 1 to 3, `init` reports no communicator, so each task identifies its communicator.
template <class Event>
void* start_task(void* context, void* plan, const WithCommunicator<Event>& event, int rank) {
  Recorder::instance().identify(context, {.id = event.id, .name = event.name, .rank = rank});
  return start_task(context, plan, event.event, rank);
}

/// Handles the events that all versions have in common.
template <class EventDescriptor>
void* start_common_event(const EventDescriptor& event) {
  Recorder& recorder = Recorder::instance();
  if (event.type == kGroup) return recorder.start_plan();
  if (event.type == kKernelChannel) return recorder.start_kernel(event.parent, event.kernel_channel.gpu_ns);
  // Each transfer is a send on one rank and a receive on another. Only sends are counted.
  const ProxyOperation& operation = event.proxy_operation;
  if (event.type == kProxyOperation && operation.is_send != 0)
    recorder.add_network_steps(event.parent, operation.pid, operation.steps);
  return nullptr;
}

/// Starts an event in versions 1 to 4.
template <class EventDescriptor>
int start_event(void* context, void** handle, EventDescriptor* event) {
  switch (event->type) {
    case kCollective: *handle = start_task(context, event->parent, event->collective, event->rank); break;
    case kTransfer: *handle = start_task(context, event->parent, event->transfer, event->rank); break;
    default: *handle = start_common_event(*event);
  }
  return 0;
}

/// Returns the call of an event that reports a call itself.
template <class Event>
Call reported_call_of(const Event& event) {
  Call call = call_of(event);
  call.stream = event.stream;
  call.is_captured = event.is_captured;
  return call;
}

/// Starts an event in versions 5 to 7, which report calls and their tasks as separate events.
template <int version>
int start_event_of_call(void* context, void** handle, DescriptorV5* event) {
  Recorder& recorder = Recorder::instance();
  Task task{.rank = event->rank};
  void* plan = nullptr;
  switch (event->type) {
    case kGroupCall: *handle = recorder.start_group(/*is_explicit=*/event->group_call.depth > 1); return 0;
    case kCollectiveCall: {
      Call call = reported_call_of(event->collective_call);
      call.root_or_peer = event->collective_call.root;
      *handle = recorder.start_call(context, event->parent, call);
      return 0;
    }
    case kTransferCall:  // without the peer, which follows with the task
      *handle = recorder.start_call(context, event->parent, reported_call_of(event->transfer_call));
      return 0;
    case kCollective:
      task = task_of(event->collective, event->rank);
      plan = event->collective.plan;
      if (version >= 7 && event->collective.is_symmetric) {
        task.algorithm = trace::Algorithm::symmetric;
        task.protocol = trace::Protocol::unknown;
      }
      break;
    case kTransfer:
      task = task_of(event->transfer, event->rank);
      task.channels = event->transfer.channels;
      plan = event->transfer.plan;
      break;
    case kCopyEngineCollective:
      task.algorithm = trace::Algorithm::copy_engine;
      task.receive = event->copy_engine_collective.receive;
      break;
    default: *handle = start_common_event(*event); return 0;
  }
  report(task);
  *handle = recorder.start_called_task(event->parent, plan, task);
  return 0;
}

/// The ends of events are not needed. `record_state` reports the end of a kernel.
int stop_event(void*) { return 0; }

int record_state(void* handle, int state, StateArguments* arguments) {
  if (state == kKernelChannelStop && arguments != nullptr) Recorder::instance().stop_kernel(handle, arguments->gpu_ns);
  return 0;
}

int finalize(void*) { return 0; }

/// Records a communicator, or lets an observer select the events. `caller`: address in NCCL, which shows its version.
void* add_communicator(const Membership& membership, int version, const void* caller, int* mask) {
  void* const context = Recorder::instance().add_communicator(membership, version, caller, mask);
  if (context == nullptr) set_events_mask(mask);  // nothing is recorded, so an observer may set the mask
  return context;
}

// `init` always succeeds. After a failure NCCL would unload the plugin while other communicators use it.
template <int version>
int init_v1(void** context, int* mask) {
  *context = add_communicator({}, version, __builtin_return_address(0), mask);
  return 0;
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t id, int nodes, int ranks, int rank, Logger) {
  *context = add_communicator({.id = id, .name = name, .rank = rank, .size = ranks, .nodes = nodes}, 4,
                              __builtin_return_address(0), mask);
  return 0;
}

template <int version>
int init_v5(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Logger) {
  *context = add_communicator({.id = id, .name = name, .rank = rank, .size = ranks, .nodes = nodes}, version,
                              __builtin_return_address(0), mask);
  return 0;
}

__attribute__((destructor)) void close_trace() { Recorder::instance().close(); }

constexpr const char* kName = "busbw";

}  // namespace
}  // namespace busbw::profiler

using namespace busbw::profiler;  // NOLINT: NCCL finds the tables by their C names

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default"))) const
BUSBW_EXPORT InterfaceV1 ncclProfiler_v1{kName, init_v1<1>, start_event, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV2 ncclProfiler_v2{kName, init_v1<2>, start_event, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV3 ncclProfiler_v3{kName, init_v1<3>, start_event, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV4 ncclProfiler_v4{kName, init_v4, start_event, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV5 ncclProfiler_v5{kName, init_v5<5>, start_event_of_call<5>, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV5 ncclProfiler_v6{kName, init_v5<6>, start_event_of_call<6>, stop_event, record_state, finalize};
BUSBW_EXPORT InterfaceV5 ncclProfiler_v7{kName, init_v5<7>, start_event_of_call<7>, stop_event, record_state, finalize};
