// Prepares the calls of a step with their memory, and issues them with their gaps.
#include "replay/replay_step.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "collectives/registry.hpp"
#include "measure/buffers.hpp"
#include "measure/clock.hpp"
#include "rendezvous/team/wait.hpp"
#include "replay/buffer_slices.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {
namespace {

constexpr CollectiveFacts kFacts{
    .name = kReplayName, .bus_factor = "", .input = "whole", .output = "whole", .redop = "never"};

/// Sum of the weights of a rank's calls (Collective::weighted_calls_per_run). Each gap counts as one call. Each
/// communicator adds two calls, for the common start and the common end of the step.
int weighted_calls(const ReplayProgram& program, const std::vector<ReplayOperation>& operations) {
  int calls = 2 * static_cast<int>(program.communicators.size());
  for (const ReplayOperation& operation : operations) {
    const Collective* const collective = find_collective(operation.function);
    calls += collective ? collective->weighted_calls_per_run(program.ranks_of(operation)) : 1;
    if (operation.gap_s > 0) ++calls;
  }
  return calls;
}

}  // namespace

const Collective* find_collective(trace::Function function) {
  static const auto collectives = [] {
    std::map<std::string_view, std::unique_ptr<Collective>> by_name;
    for (const CollectiveEntry& entry : all_collectives()) by_name[entry.name] = entry.make({});
    return by_name;
  }();
  const auto entry = collectives.find(name(function));
  return entry == collectives.end() ? nullptr : entry->second.get();
}

ReplayDescription::ReplayDescription(const ReplayProgram& program) : Collective(kFacts) {
  shape_.send_count = shape_.recv_count = step_bytes(program);
  for (const auto& operations : program.operations) {
    // The count column shows the largest number of operations of a rank.
    shape_.param_count = std::max(shape_.param_count, operations.size());
    max_weighted_calls_ = std::max(max_weighted_calls_, weighted_calls(program, operations));
  }
}

Shape ReplayDescription::shape(std::size_t /*count*/, std::size_t /*element_bytes*/, int /*ranks*/) const {
  return shape_;
}

int ReplayDescription::weighted_calls_per_run(int /*ranks*/) const { return max_weighted_calls_; }

/// A call that is ready to be issued.
struct ReplayStep::PreparedCall {
  Communicator* communicator = nullptr;
  const Collective* collective = nullptr;  // null: an exchange
  CollectiveCall arguments = {};           // an exchange uses only `dtype`: the type of all transfers
  std::vector<Transfer> sends = {};
  std::vector<Transfer> recvs = {};
  double gap_s = 0;
  /// Begin of the gap. True: the end of the communicator's previous gap; false: the end of its previous operation.
  bool is_overlapped = false;
  bool next_is_overlapped = false;  // `is_overlapped` of the communicator's next call
  bool begins_group = false;
  bool ends_group = false;
};

ReplayStep::ReplayStep(const MatchedCalls& calls, const ReplayCommunicators& communicators, const Team& world,
                       std::uint64_t max_bytes)
    : ReplayDescription(calls.program()),
      communicators_(communicators),
      world_(world),
      has_device_clock_(communicators.first().timestamps() != nullptr) {
  const auto slices = slice_offsets(calls, world.rank(), max_bytes);
  for (const ReplayCall& call : calls.of_rank(world.rank()))
    calls_.push_back(prepare_call(calls.program(), call, kGuardBytes + slices.at(call.communicator)));
  std::map<const Communicator*, PreparedCall*> previous_calls;
  for (PreparedCall& call : calls_) {
    const auto previous = previous_calls.find(call.communicator);
    if (previous != previous_calls.end())
      previous->second->next_is_overlapped = call.is_overlapped;
    else
      call.is_overlapped = false;  // the first gap begins with the step
    previous_calls[call.communicator] = &call;
  }
}

ReplayStep::~ReplayStep() = default;

ReplayStep::PreparedCall ReplayStep::prepare_call(const ReplayProgram& program, const ReplayCall& call,
                                                  std::size_t slice_offset) const {
  std::byte* send = communicators_.first().send_buffer().data() + slice_offset;
  std::byte* recv = communicators_.first().recv_buffer().data() + slice_offset;
  const auto& operations = program.operations[static_cast<std::size_t>(world_.rank())];
  const ReplayOperation& first = operations[call.operations.front()];
  PreparedCall prepared{.communicator = communicators_.find(call.communicator),
                        .collective = find_collective(first.function),
                        .is_overlapped = first.is_overlapped,
                        .begins_group = call.begins_group,
                        .ends_group = call.ends_group};
  // The transfers of an exchange start together, after the longest of their gaps.
  for (const std::size_t index : call.operations) prepared.gap_s = std::max(prepared.gap_s, operations[index].gap_s);
  const int root = std::max(0, first.peer);  // the peer is -1 if the collective has no root
  prepared.arguments = {.count = first.count, .dtype = first.dtype, .redop = first.redop, .root = root};
  if (!prepared.collective) {
    set_transfers(operations, call, send, recv, prepared);
    return prepared;
  }
  const Shape shape = prepared.collective->call_shape(first.count, prepared.communicator->size());
  // In place, the data of rank r begins at element r * offset of the receive buffer (Shape).
  const std::size_t bytes_per_offset =
      size_bytes(first.dtype) * static_cast<std::size_t>(prepared.communicator->rank());
  prepared.arguments.send = first.in_place ? recv + shape.send_inplace_offset * bytes_per_offset : send;
  prepared.arguments.recv = first.in_place ? recv + shape.recv_inplace_offset * bytes_per_offset : recv;
  return prepared;
}

/// Sets the sends and receives of an exchange, with their data one after the other from `send` and `recv` on.
void ReplayStep::set_transfers(const std::vector<ReplayOperation>& operations, const ReplayCall& call, std::byte* send,
                               std::byte* recv, PreparedCall& prepared) {
  // Communicator::exchange has one type for all transfers. With several types, the transfers count bytes.
  const Dtype first_dtype = prepared.arguments.dtype;
  const bool has_one_type =
      std::ranges::all_of(call.operations, [&](std::size_t index) { return operations[index].dtype == first_dtype; });
  if (!has_one_type) prepared.arguments.dtype = Dtype::uint8;
  for (const std::size_t index : call.operations) {
    const ReplayOperation& operation = operations[index];
    const std::size_t bytes = operation.count * size_bytes(operation.dtype);
    const bool is_send = operation.function == trace::Function::send;
    std::vector<Transfer>& transfers = is_send ? prepared.sends : prepared.recvs;
    std::byte*& next_data = is_send ? send : recv;
    transfers.push_back({.peer = operation.peer, .data = next_data, .count = has_one_type ? operation.count : bytes});
    next_data += bytes;
  }
}

void ReplayStep::fill_buffers() const {
  Communicator& first = communicators_.first();
  for (const auto buffer : {first.send_buffer(), first.recv_buffer()}) {
    first.fill(buffer.data(), moved_stream(Dtype::float32, first.rank(), 0), 0,
               buffer.size() / size_bytes(Dtype::float32));
  }
  // In the type of a reduction, the data above could be NaN.
  std::map<const std::byte*, const PreparedCall*> first_reductions;  // the first one at each address of send data
  for (const PreparedCall& call : calls_)
    if (call.collective && call.collective->reduces()) first_reductions.try_emplace(call.arguments.send, &call);
  for (const auto& [send_data, call] : first_reductions) {
    const ReductionValues values(call->arguments.dtype, call->arguments.redop, call->communicator->size());
    const Shape shape = call->collective->call_shape(call->arguments.count, call->communicator->size());
    const DataStream stream = values.contribution(call->communicator->rank(), 0);
    first.fill(const_cast<std::byte*>(send_data), stream, 0, shape.send_count);
  }
  first.synchronize();
}

void ReplayStep::wait_for_gap(const PreparedCall& call, std::map<const Communicator*, Ends>& ends) const {
  if (has_device_clock_) {
    // An overlapped gap begins at the end of the previous delay. So before an overlapped gap, even a gap of 0 s needs a
    // delay.
    const bool needs_delay = call.gap_s > 0 || call.next_is_overlapped;
    if (needs_delay) call.communicator->delay(call.gap_s, call.is_overlapped);
    return;
  }
  Ends& last_ends = ends.at(call.communicator);
  const double gap_start_s = call.is_overlapped ? last_ends.gap_end_s : last_ends.operation_end_s;
  last_ends.gap_end_s = gap_start_s + call.gap_s;
  if (call.gap_s == 0) return;
  wait_until_s(last_ends.gap_end_s, [this] { throw_if_aborted(world_); });
}

void ReplayStep::run(Communicator& /*first*/, const CollectiveCall& /*arguments*/) const {
  std::map<const Communicator*, Ends> ends;
  const double start_s = has_device_clock_ ? 0 : monotonic_s();
  communicators_.for_each([&](Communicator& communicator) {
    communicator.wait_for(communicators_.first());
    ends[&communicator] = {start_s, start_s};
  });
  // Communicator that began the open group. Null between groups. The group may have calls on other communicators too.
  Communicator* group_opener = nullptr;
  for (auto call = calls_.begin(); call != calls_.end(); ++call) {
    if (!group_opener) {
      // All gaps of a group come before the group, because its operations start together.
      auto last = call;
      if (call->begins_group) last = std::ranges::find(call, calls_.end(), true, &PreparedCall::ends_group);
      std::for_each(call, std::next(last), [&](const PreparedCall& member) { wait_for_gap(member, ends); });
    }
    if (call->begins_group) {
      group_opener = call->communicator;
      group_opener->begin_group();
    }
    if (call->collective)
      call->collective->run(*call->communicator, call->arguments);
    else
      call->communicator->exchange(call->sends, call->recvs, call->arguments.dtype);
    if (call->ends_group) {
      group_opener->end_group();
      group_opener = nullptr;
    }
    if (!has_device_clock_) ends[call->communicator].operation_end_s = monotonic_s();
  }
  communicators_.for_each([&](Communicator& communicator) { communicators_.first().wait_for(communicator); });
}

}  // namespace busbw
