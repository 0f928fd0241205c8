// A communicator around another one: it writes each operation, with its times, to the trace file of the process.
#include "recording/recorder.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "backends/observing_communicator.hpp"
#include "recording/process_trace.hpp"

namespace busbw {
namespace {

using trace::Function;
using trace::OperationRecord;

/// True if the pointers are in place as NCCL defines it.
bool is_in_place(const ObservedOperation& operation, int rank) {
  const std::size_t share_offset = operation.count * size_bytes(operation.dtype) * static_cast<std::size_t>(rank);
  const bool receives_shares = operation.function == Function::all_gather || operation.function == Function::gather;
  const bool sends_shares = operation.function == Function::reduce_scatter || operation.function == Function::scatter;
  const std::byte* const own_input = operation.send + (sends_shares ? share_offset : 0);
  const std::byte* const own_result = operation.recv + (receives_shares ? share_offset : 0);
  return own_input == own_result;
}

class RecordingCommunicator final : public ObservingCommunicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<ProcessTrace> trace, int world_rank,
                        Team& group)
      : ObservingCommunicator(*inner),
        own_(std::move(inner)),
        trace_(std::move(trace)),
        recorded_(trace_->add_communicator(world_rank, group)) {}

  void begin_group() override {
    recorded_.rank->operation_group = trace_->next_operation_group();
    ObservingCommunicator::begin_group();
  }
  void end_group() override {
    ObservingCommunicator::end_group();
    recorded_.rank->operation_group = 0;
  }

 private:
  void begin_operation(const ObservedOperation& operation) override {
    const std::size_t transfers = operation.sends.size() + operation.recvs.size();
    const std::uint32_t open_group = recorded_.rank->operation_group;
    // The transfers of one exchange run together, so they form a group in the trace even without begin_group().
    const bool forms_own_group = transfers > 1 && open_group == 0;
    const std::uint32_t group = forms_own_group ? trace_->next_operation_group() : open_group;
    start_ns_ = trace_->now_ns();
    // An exchange has no record of its own: each of its transfers has one.
    if (operation.function != Function::other) {
      std::uint8_t flags = trace::kIsInPlaceKnown;
      if (is_in_place(operation, rank())) flags |= trace::kInPlace;
      add(operation, operation.function, operation.count, operation.root, group, flags);
    }
    for (const Transfer& send : operation.sends) add(operation, Function::send, send.count, send.peer, group, 0);
    for (const Transfer& recv : operation.recvs) add(operation, Function::recv, recv.count, recv.peer, group, 0);
  }

  void end_operation() override {
    const std::uint64_t end_ns = trace_->now_ns();
    for (OperationRecord* const record : open_) {
      record->device_end_ns.store(end_ns, std::memory_order_relaxed);
      record->kind.store(trace::Kind::operation, std::memory_order_release);
    }
    open_.clear();
  }

  void add(const ObservedOperation& operation, Function function, std::size_t count, int peer, std::uint32_t group,
           std::uint8_t flags) {
    auto* const record = trace_->file().take<OperationRecord>();
    if (!record) return;
    record->function = function;
    record->datatype = static_cast<std::uint8_t>(operation.dtype);
    // NCCL has no fixed number for mulsum.
    const bool has_redop_number = operation.redop && *operation.redop != Redop::mulsum;
    record->redop = has_redop_number ? static_cast<std::uint8_t>(*operation.redop) : trace::kUnknownByte;
    record->communicator = recorded_.index;
    record->stream = trace::kUnknownIndex;
    record->peer = peer;
    record->group = group;
    record->count = count;
    record->enqueue_ns = start_ns_;
    record->device_start_ns.store(start_ns_, std::memory_order_relaxed);
    record->algorithm = trace::Algorithm::unknown;
    record->protocol = trace::Protocol::unknown;
    record->channels = trace::kUnknownByte;
    record->flags = flags;
    record->network_steps.store(trace::kUnknownCount, std::memory_order_relaxed);
    record->thread = recorded_.rank->thread;
    open_.push_back(record);
  }

  std::unique_ptr<Communicator> own_;
  std::shared_ptr<ProcessTrace> trace_;
  RecordedCommunicator recorded_;
  std::uint64_t start_ns_ = 0;          // of the current operation
  std::vector<OperationRecord*> open_;  // records of the current operation, which are completed at its end
};

/// Opens the trace file of each process.
class Recorder {
 public:
  Recorder(trace::TraceSettings settings, int ranks_per_process)
      : settings_(std::move(settings)), ranks_per_process_(ranks_per_process) {}

  /// Returns the trace of this process. Its first rank opens the file, so that each forked process has its own file.
  /// The file closes with the last communicator.
  std::shared_ptr<ProcessTrace> process_trace(const Team& world) {
    const std::lock_guard lock(mutex_);
    auto trace = trace_.lock();
    if (!trace) {
      trace = std::make_shared<ProcessTrace>(settings_, world.rank() / ranks_per_process_,
                                             world.size() / ranks_per_process_);
      trace_ = trace;
    }
    return trace;
  }

 private:
  trace::TraceSettings settings_;
  int ranks_per_process_;
  std::mutex mutex_;
  std::weak_ptr<ProcessTrace> trace_;
};

}  // namespace

CommunicatorWrapper make_recorder(const trace::TraceSettings& settings, int ranks_per_process) {
  return [recorder = std::make_shared<Recorder>(settings, ranks_per_process)](
             std::unique_ptr<Communicator> communicator, const Team& world, Team& group) {
    return std::make_unique<RecordingCommunicator>(std::move(communicator), recorder->process_trace(world),
                                                   world.rank(), group);
  };
}

}  // namespace busbw
