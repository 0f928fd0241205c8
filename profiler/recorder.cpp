// Writes NCCL's reports to records of the trace file. A handle for NCCL is the address of a record, plus a tag with the
// kind of the event. The handle of a group or a plan is only a tag, because the thread's state describes it.
#include "profiler/recorder.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "common/os/environment.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "common/trace/launched_process.hpp"
#include "common/values/types.hpp"
#include "profiler/nccl_profiler.hpp"
#include "profiler/wanted_events.hpp"

namespace busbw::profiler {
namespace {

using trace::CommunicatorRecord;
using trace::Function;
using trace::Kind;
using trace::OperationRecord;

// Low bits of a handle. They are free because records are aligned to 64 bytes.
enum Tag : unsigned {
  kNoTag = 0,  // communicator
  kExplicitGroupTag = 1,  // calls between ncclGroupStart and ncclGroupEnd of the program
  kImplicitGroupTag = 2,  // calls that NCCL makes within one call of the program
  kPlanTag = 3,
  kCallTag = 4,
  kTaskTag = 5,
  kKernelTag = 6
};
constexpr std::uintptr_t kTagMask = trace::kRecordBytes - 1;

void* handle_of(const void* record, Tag tag) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(record) | tag);
}

unsigned tag_of(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle) & kTagMask; }

std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// Stores `candidate` if it is larger than the value.
void update_maximum(std::atomic<std::uint64_t>& maximum, std::uint64_t candidate) {
  std::uint64_t current = maximum.load(std::memory_order_relaxed);
  while (candidate > current && !maximum.compare_exchange_weak(current, candidate, std::memory_order_relaxed)) {
  }
}

void copy_communicator(CommunicatorRecord& record, const Membership& membership) {
  record.id = membership.id;
  record.has_id = membership.id != 0 ? 1 : 0;
  record.size = membership.size;
  record.nodes = membership.nodes;
  if (membership.name != nullptr) std::strncpy(record.name.data(), membership.name, record.name.size() - 1);
}

bool has_root(Function function) {
  return function == Function::broadcast || function == Function::reduce || function == Function::gather ||
         function == Function::scatter;
}

/// Returns `root_or_peer` if the function has a root or a peer, else -1. NCCL states a root for other functions too.
std::int32_t peer_of(Function function, std::int32_t root_or_peer) {
  const bool has_peer = function == Function::send || function == Function::recv;
  return has_root(function) || has_peer ? root_or_peer : -1;
}

/// Returns the in-place flags. In place means that both buffers are the same. If one buffer has only this rank's data,
/// that buffer must be this rank's part of the other buffer.
std::uint8_t in_place_flags(const OperationRecord& record, const Task& task) {
  if (task.send == nullptr || task.receive == nullptr || record.datatype == trace::kUnknownByte) return 0;
  auto send = reinterpret_cast<std::uintptr_t>(task.send);
  auto receive = reinterpret_cast<std::uintptr_t>(task.receive);
  const std::uintptr_t offset = record.count * size_bytes(static_cast<Dtype>(record.datatype)) * task.rank;
  switch (record.function) {
    case Function::all_gather: receive += offset; break;
    case Function::reduce_scatter: send += offset; break;
    case Function::all_reduce:
    case Function::broadcast:
    case Function::reduce:
    case Function::alltoall: break;
    default: return 0;
  }
  return trace::kIsInPlaceKnown | (send == receive ? trace::kInPlace : 0);
}

}  // namespace

Recorder::Recorder() {
  // A forked child must not write to its parent's trace file. So it forgets the file, and creates its own for its
  // first communicator. A thread that does not exist in the child may hold the mutex, so the child gets a new mutex.
  pthread_atfork(nullptr, nullptr, [] {
    Recorder& recorder = instance();
    recorder.file_ = nullptr;
    new (&recorder.open_mutex_) std::mutex;
  });
}

trace::TraceFile* Recorder::open(int interface, const void* caller) noexcept {
  const std::lock_guard lock(open_mutex_);
  trace::TraceFile* file = file_.load();
  if (file != nullptr || is_disabled_) return file;
  try {
    file = create_file(interface, caller);
  } catch (const std::exception& error) {
    print_stderr("busbw record", error.what());
  }
  is_disabled_ = file == nullptr;
  file_ = file;  // never destroyed, because callbacks may come at any time
  return file;
}

trace::TraceFile* Recorder::create_file(int interface, const void* caller) {
  const auto settings = trace::trace_settings(process_environment);
  if (!settings) return nullptr;
  const int nccl_version = nccl_version_of(caller);
  mask_ = wanted_events(process_environment, interface, nccl_version);
  const auto process = trace::launched_process(process_environment);
  start_ns_ = clock_ns(CLOCK_MONOTONIC);
  auto* const file = new trace::TraceFile(*settings, {.producer = "busbw-profiler " + std::string(version()),
                                                      .start_realtime_ns = clock_ns(CLOCK_REALTIME),
                                                      .start_monotonic_ns = start_ns_,
                                                      .rank = process.rank,
                                                      .size = process.size});
  file->header().nccl_version = static_cast<std::uint32_t>(nccl_version);
  file->header().plugin_interface = static_cast<std::uint8_t>(interface);
  if ((mask_ & kKernelChannel) != 0) file->header().device_clock = trace::TraceClock::gpu;
  communicator_count_ = group_count_ = thread_count_ = 0;
  for (auto& stream : streams_) stream = 0;
  ++generation_;
  return file;
}

void* Recorder::add_communicator(const Membership& membership, int interface, const void* caller, int* mask) noexcept {
  trace::TraceFile* const file = open(interface, caller);
  // NCCL has one mask for all communicators, and other threads may read it now. Each call stores the same value.
  *mask = file == nullptr ? 0 : mask_;
  if (file == nullptr) return nullptr;
  const std::uint32_t index = communicator_count_.fetch_add(1, std::memory_order_relaxed);
  if (index >= trace::kUnknownIndex) return nullptr;
  auto* const record = file->take<CommunicatorRecord>();
  if (record == nullptr) return nullptr;
  record->communicator = static_cast<std::uint16_t>(index);
  record->rank = membership.rank;
  copy_communicator(*record, membership);
  // If the rank is unknown, `identify` completes the record.
  if (membership.rank >= 0) record->kind.store(Kind::communicator, std::memory_order_release);
  return record;
}

void Recorder::identify(void* context, const Membership& membership) noexcept {
  auto* const record = record_of<CommunicatorRecord>(context, kNoTag);
  std::int32_t unknown = -1;
  if (record == nullptr || membership.rank < 0 ||
      !std::atomic_ref(record->rank).compare_exchange_strong(unknown, membership.rank))
    return;
  copy_communicator(*record, membership);
  record->kind.store(Kind::communicator, std::memory_order_release);
}

void* Recorder::start_group(bool is_explicit) noexcept {
  if (file_.load(std::memory_order_acquire) == nullptr) return nullptr;
  ThreadState& thread = thread_state();
  thread.first_call = nullptr;
  thread.group_start_ns = now_ns();
  return handle_of(nullptr, is_explicit ? kExplicitGroupTag : kImplicitGroupTag);
}

void* Recorder::start_call(void* context, void* group, const Call& call) noexcept {
  if (file_.load(std::memory_order_acquire) == nullptr) return nullptr;
  ThreadState& thread = thread_state();
  const bool is_explicit = tag_of(group) == kExplicitGroupTag;
  const bool is_in_group = is_explicit || tag_of(group) == kImplicitGroupTag;
  // NCCL starts a group within the first call of that group. So the start of the group is the time of this call.
  const bool is_first = is_in_group && thread.first_call == nullptr;
  OperationRecord* const record = take_operation(context, call, is_first ? thread.group_start_ns : now_ns());
  if (record == nullptr) return nullptr;
  record->stream = stream_number(call.stream);
  if (call.is_captured) record->flags = trace::kCaptured;
  // NCCL reports an alltoall as several calls in an implicit group. They must stay together.
  if (is_in_group) join_group(thread.first_call, *record);
  // An explicit group of one call is a group too. An implicit group of one call is only this call.
  if (is_first && is_explicit) record->group = next_group();
  record->kind.store(Kind::operation, std::memory_order_release);
  return handle_of(record, kCallTag);
}

void* Recorder::start_plan() noexcept {
  thread_state().first_task = nullptr;
  return handle_of(nullptr, kPlanTag);
}

void* Recorder::start_called_task(void* handle, void* plan, const Task& task) noexcept {
  auto* record = record_of<OperationRecord>(handle, kCallTag);
  if (record == nullptr) return nullptr;
  const bool is_captured = (record->flags & trace::kCaptured) != 0;
  if (is_captured) {
    record = take_replay(*record);
    if (record == nullptr) return nullptr;
    if (tag_of(plan) == kPlanTag) join_group(thread_state().first_task, *record);
  }
  complete(*record, task);
  record->kind.store(Kind::operation, std::memory_order_release);
  return handle_of(record, kTaskTag);
}

void* Recorder::start_task(void* context, void* plan, const Call& call, const Task& task) noexcept {
  if (file_.load(std::memory_order_acquire) == nullptr) return nullptr;
  OperationRecord* const record = take_operation(context, call, now_ns());
  if (record == nullptr) return nullptr;
  // NCCL reports these two functions with their count in bytes and type int8.
  const bool is_in_bytes = call.function == Function::all_gather || call.function == Function::broadcast;
  if (is_in_bytes && call.datatype == static_cast<std::uint8_t>(Dtype::int8)) record->flags = trace::kCountIsInBytes;
  if (tag_of(plan) == kPlanTag) join_group(thread_state().first_task, *record);
  complete(*record, task);
  record->kind.store(Kind::operation, std::memory_order_release);
  return handle_of(record, kTaskTag);
}

void* Recorder::start_kernel(void* task, std::uint64_t gpu_ns) noexcept {
  auto* const record = record_of<OperationRecord>(task, kTaskTag);
  if (record == nullptr) return nullptr;
  // The latest start of all channels, because the start that NCCL reports for a channel can be too early.
  update_maximum(record->device_start_ns, gpu_ns);
  return handle_of(record, kKernelTag);
}

void Recorder::stop_kernel(void* kernel, std::uint64_t gpu_ns) noexcept {
  auto* const record = record_of<OperationRecord>(kernel, kKernelTag);
  if (record == nullptr) return;
  update_maximum(record->device_end_ns, gpu_ns);
}

void Recorder::add_network_steps(void* task, int pid, int steps) noexcept {
  auto* const record = record_of<OperationRecord>(task, kTaskTag);
  if (record == nullptr || steps < 0) return;
  // A network proxy also works for other processes. Then `task` is an address in the other process.
  const bool is_own_task = file_.load(std::memory_order_acquire)->header().pid == pid;
  if (!is_own_task) return;
  record->network_steps.fetch_add(static_cast<std::uint32_t>(steps), std::memory_order_relaxed);
}

void Recorder::close() noexcept {
  if (trace::TraceFile* const file = file_.load()) file->close();
}

Recorder::ThreadState& Recorder::thread_state() noexcept {
  thread_local ThreadState state;
  if (const std::uint32_t generation = generation_.load(std::memory_order_relaxed); state.generation != generation)
    state = {.generation = generation, .number = thread_count_.fetch_add(1, std::memory_order_relaxed)};
  return state;
}

template <class Record>
Record* Recorder::record_of(const void* handle, unsigned tag) const noexcept {
  const trace::TraceFile* const file = file_.load(std::memory_order_acquire);
  if (file == nullptr || tag_of(handle) != tag) return nullptr;
  void* const record = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(handle) & ~kTagMask);
  return file->contains(record) ? static_cast<Record*>(record) : nullptr;
}

OperationRecord* Recorder::take_operation(const void* context, const Call& call, std::uint64_t enqueue_ns) noexcept {
  const auto* const communicator = record_of<CommunicatorRecord>(context, kNoTag);
  if (communicator != nullptr) return take_operation(communicator->communicator, call, enqueue_ns);
  file_.load(std::memory_order_acquire)->count_lost();
  return nullptr;
}

OperationRecord* Recorder::take_operation(std::uint16_t communicator, const Call& call,
                                          std::uint64_t enqueue_ns) noexcept {
  auto* const record = file_.load(std::memory_order_acquire)->take<OperationRecord>();
  if (record == nullptr) return nullptr;
  record->function = call.function;
  record->datatype = call.datatype;
  record->redop = trace::kUnknownByte;
  record->communicator = communicator;
  record->stream = trace::kUnknownIndex;
  record->peer = peer_of(call.function, call.root_or_peer);
  record->count = call.count;
  record->enqueue_ns = enqueue_ns;
  record->algorithm = trace::Algorithm::unknown;
  record->protocol = trace::Protocol::unknown;
  record->channels = trace::kUnknownByte;
  record->network_steps.store(trace::kUnknownCount, std::memory_order_relaxed);
  record->thread = thread_state().number;
  return record;
}

OperationRecord* Recorder::take_replay(const OperationRecord& captured) noexcept {
  const Call call{.function = captured.function,
                  .datatype = captured.datatype,
                  .count = captured.count,
                  .root_or_peer = captured.peer};
  OperationRecord* const replay = take_operation(captured.communicator, call, now_ns());
  if (replay == nullptr) return nullptr;
  replay->stream = captured.stream;
  replay->flags = trace::kGraphReplay;
  return replay;
}

std::uint32_t Recorder::next_group() noexcept { return group_count_.fetch_add(1, std::memory_order_relaxed) + 1; }

void Recorder::join_group(OperationRecord*& first, OperationRecord& record) noexcept {
  if (first == nullptr) {
    first = &record;
    return;
  }
  if (first->group == 0) first->group = next_group();
  record.group = first->group;
}

std::uint16_t Recorder::stream_number(const void* stream) noexcept {
  const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(stream) + 1;
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    std::uintptr_t known = streams_[number].load(std::memory_order_relaxed);
    // If the exchange fails, another thread has just added a stream here, and `known` becomes the key of that stream.
    const bool is_added = known == 0 && streams_[number].compare_exchange_strong(known, key);
    if (is_added || known == key) return static_cast<std::uint16_t>(number);
  }
  return trace::kUnknownIndex;
}

void Recorder::complete(OperationRecord& record, const Task& task) noexcept {
  record.algorithm = task.algorithm;
  record.protocol = task.protocol;
  constexpr std::uint8_t kMaxChannels = trace::kUnknownByte - 1;
  record.channels = task.channels == 0 ? trace::kUnknownByte : std::min(task.channels, kMaxChannels);
  if (record.peer < 0) record.peer = peer_of(record.function, task.root_or_peer);
  record.flags |= in_place_flags(record, task);
  // From now on the number of transfers is known, because NCCL reports each transfer of the task.
  const bool counts_transfers = (mask_ & kProxyOperation) != 0;
  if (counts_transfers) record.network_steps.store(0, std::memory_order_relaxed);
}

std::uint64_t Recorder::now_ns() const noexcept {
  return std::max<std::uint64_t>(1, clock_ns(CLOCK_MONOTONIC) - start_ns_);
}

}  // namespace busbw::profiler
