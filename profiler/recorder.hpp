#pragma once
// Records the operations that NCCL reports, independent of the version of the interface. NCCL may report events late,
// twice, in another order or not at all. So a handle refers to a record of the mapped trace file, which stays valid, or
// to nothing. A handle also has a tag: the kind of its event.
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "common/trace/format.hpp"
#include "common/trace/trace_file.hpp"

namespace busbw::profiler {

/// A rank's communicator, as NCCL reports it. Values of -1 are unknown.
struct Membership {
  std::uint64_t id = 0;  // 0: unknown
  const char* name = nullptr;
  std::int32_t rank = -1;
  std::int32_t size = -1;
  std::int32_t nodes = -1;
};

/// An operation as the program called it.
struct Call {
  trace::Function function;
  std::uint8_t datatype;
  std::uint64_t count;
  std::int32_t root_or_peer = -1;  // -1: none or unknown
  const void* stream = nullptr;
  bool is_captured = false;
};

/// A task, NCCL's term for an operation that NCCL has enqueued, with NCCL's choices. Members without a value are
/// unknown.
struct Task {
  std::int32_t root_or_peer = -1;
  std::int32_t rank = -1;  // of this process in the communicator
  trace::Algorithm algorithm = trace::Algorithm::unknown;
  trace::Protocol protocol = trace::Protocol::unknown;
  std::uint8_t channels = 0;
  const void* send = nullptr;
  const void* receive = nullptr;
};

/// Recorder of this process. Any thread may call all functions. Handles may be null, or may come from another process.
class Recorder {
 public:
  /// Returns the recorder of this process. It is never destroyed, because NCCL may report events during the exit.
  static Recorder& instance() {
    static Recorder& recorder = *new Recorder;
    return recorder;
  }

  /// Creates the trace file at the first call. Returns a context for the operations of the communicator, or null if
  /// nothing can be recorded. `interface` is NCCL's version of the interface. `caller` is an address in NCCL. Sets
  /// `mask` to the wanted events.
  void* add_communicator(const Membership&, int interface, const void* caller, int* mask) noexcept;
  /// Completes a communicator that had no rank until now. Only the first call of a context has an effect.
  void identify(void* context, const Membership&) noexcept;

  /// Starts a group of calls. A group is explicit if the program began it, and implicit if NCCL began it within a call.
  void* start_group(bool is_explicit) noexcept;
  /// Records a call. `group`: handle of start_group(), or null if the call is in no group.
  void* start_call(void* context, void* group, const Call&) noexcept;
  /// Starts a plan: the tasks that NCCL puts into one kernel. Never returns null, because NCCL before 2.28 does not
  /// report the tasks of a plan for which it got null.
  void* start_plan() noexcept;
  /// Completes the record of a call. The task of a captured call gets a record of its own for every launch of the
  /// graph.
  void* start_called_task(void* call, void* plan, const Task&) noexcept;
  /// Records a task under a version of the interface that does not report calls. The tasks of one plan form a group.
  void* start_task(void* context, void* plan, const Call&, const Task&) noexcept;
  /// Adds the times of one channel of a task's kernel, in nanoseconds of the GPU's clock.
  void* start_kernel(void* task, std::uint64_t gpu_ns) noexcept;
  void stop_kernel(void* kernel, std::uint64_t gpu_ns) noexcept;
  /// Adds network transfers to a task. `pid`: process that issued the task. Ignores the tasks of other processes.
  void add_network_steps(void* task, int pid, int steps) noexcept;

  /// Closes the trace file. Later operations are lost.
  void close() noexcept;

 private:
  /// State of one thread that calls NCCL.
  struct ThreadState {
    std::uint32_t generation = 0;  // of the trace file that the other members refer to
    std::uint32_t number = 0;
    std::uint64_t group_start_ns = 0;
    trace::OperationRecord* first_call = nullptr;  // of the group of calls
    trace::OperationRecord* first_task = nullptr;  // of the plan
  };

  Recorder();
  /// Returns the trace file, which the first call creates. Null if nothing can be recorded.
  trace::TraceFile* open(int interface, const void* caller) noexcept;
  /// Creates the trace file and resets the counters. Null if the environment does not request a trace.
  trace::TraceFile* create_file(int interface, const void* caller);
  ThreadState& thread_state() noexcept;
  /// Returns the record of a handle. Null if the handle's tag is not `tag`, or its record is not in this trace file.
  template <class Record>
  Record* record_of(const void* handle, unsigned tag) const noexcept;
  trace::OperationRecord* take_operation(const void* context, const Call&, std::uint64_t enqueue_ns) noexcept;
  trace::OperationRecord* take_operation(std::uint16_t communicator, const Call&, std::uint64_t enqueue_ns) noexcept;
  /// Takes a record for one launch of a graph that contains the captured call.
  trace::OperationRecord* take_replay(const trace::OperationRecord& captured) noexcept;
  std::uint32_t next_group() noexcept;
  /// Adds an operation to the group of `first`, or makes the operation the first of a group. Only the second operation
  /// gives the group a number.
  void join_group(trace::OperationRecord*& first, trace::OperationRecord&) noexcept;
  /// Returns the position of the stream in `streams_`, and adds a new stream. kUnknownIndex if `streams_` is full.
  std::uint16_t stream_number(const void* stream) noexcept;
  /// Adds the members that only the task has: NCCL's choices, the peer, and the in-place flags.
  void complete(trace::OperationRecord&, const Task&) noexcept;
  /// Returns the time since the start of the trace, at least 1.
  std::uint64_t now_ns() const noexcept;

  std::atomic<trace::TraceFile*> file_{nullptr};
  std::mutex open_mutex_;  // held while a thread creates the trace file
  bool is_disabled_ = false;  // no trace is requested, or the trace file could not be created
  int mask_ = 0;
  std::uint64_t start_ns_ = 0;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> communicator_count_{0};
  std::atomic<std::uint32_t> group_count_{0};
  std::atomic<std::uint32_t> thread_count_{0};
  // Address of each stream plus one, in the order of appearance. Zero marks an unused element, and the default stream
  // has the address 0.
  std::array<std::atomic<std::uintptr_t>, 256> streams_{};
};

}  // namespace busbw::profiler
