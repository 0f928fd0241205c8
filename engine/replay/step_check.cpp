#include "replay/step_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "measure/buffers.hpp"
#include "replay/replay_step.hpp"

namespace busbw {
namespace {

constexpr CollectiveFacts kExchangeFacts{
    .name = "exchange", .bus_factor = "1", .input = "whole", .output = "whole", .redop = "never"};

/// Transfers between the ranks of a communicator, in bytes. A rank sends its data in the order of the receivers, and
/// receives in the order of the senders.
class TransferExchange final : public Collective {
 public:
  explicit TransferExchange(const std::vector<MatchedTransfer>& transfers)
      : Collective(kExchangeFacts), transfers_(transfers) {}

  Shape shape(std::size_t /*count*/, std::size_t /*element_bytes*/, int ranks) const override {
    Shape shape;
    for (int rank = 0; rank < ranks; ++rank) {
      shape.send_count = std::max(shape.send_count, sent_before(rank, ranks));
      shape.recv_count = std::max(shape.recv_count, received_bytes(rank));
    }
    return shape;
  }
  Segments send_segments(const Shape&, std::size_t, int rank, int ranks, int /*root*/) const override {
    return {{.count = sent_before(rank, ranks), .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t, int rank, int /*ranks*/, int /*root*/) const override {
    Segments segments;
    std::size_t offset = 0;
    for (const MatchedTransfer& transfer : transfers_)
      if (transfer.to == rank) {
        segments.push_back({.offset = offset,
                            .count = transfer.bytes,
                            .source_rank = transfer.from,
                            .first = sent_before(transfer.from, rank)});
        offset += transfer.bytes;
      }
    segments.push_back({.offset = offset, .count = shape.recv_count - offset, .source = Segment::Source::untouched});
    return segments;
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    std::vector<Transfer> sends;
    std::vector<Transfer> recvs;
    std::byte* recv = call.recv;
    for (const MatchedTransfer& transfer : transfers_) {
      // The data is only read; Transfer has one pointer type for both directions.
      if (transfer.from == communicator.rank())
        sends.push_back(
            {transfer.to, const_cast<std::byte*>(call.send) + sent_before(transfer.from, transfer.to), transfer.bytes});
      if (transfer.to == communicator.rank()) {
        recvs.push_back({transfer.from, recv, transfer.bytes});
        recv += transfer.bytes;
      }
    }
    communicator.exchange(sends, recvs, call.dtype);
  }

 private:
  /// Bytes that `rank` sends to the ranks before `end`.
  std::size_t sent_before(int rank, int end) const {
    std::size_t bytes = 0;
    for (const MatchedTransfer& transfer : transfers_)
      if (transfer.from == rank && transfer.to < end) bytes += transfer.bytes;
    return bytes;
  }
  std::size_t received_bytes(int rank) const {
    std::size_t bytes = 0;
    for (const MatchedTransfer& transfer : transfers_)
      if (transfer.to == rank) bytes += transfer.bytes;
    return bytes;
  }

  const std::vector<MatchedTransfer>& transfers_;
};

std::string call_text(const DistinctCall& call) {
  if (!call.transfers.empty()) return fmt::format("send and receive on communicator {}", call.communicator);
  return fmt::format("{} of {} {} on communicator {}", name(call.function), call.count, name(call.dtype),
                     call.communicator);
}

int ranks_of(const MatchedCalls& calls, const DistinctCall& call) {
  return static_cast<int>(calls.program().communicators[static_cast<std::size_t>(call.communicator)].size());
}

}  // namespace

RankCheckResult check_calls(const MatchedCalls& calls, const ReplayCommunicators& communicators, Team& world,
                            std::uint64_t seed, const ResultChange& change_result) {
  const std::uint64_t buffer_bytes = communicators.first().recv_buffer().size() - 2 * kGuardBytes;
  RankCheckResult total;
  for (const DistinctCall& call : calls.distinct_calls()) {
    world.enter(Phase::check);
    Communicator* const communicator = communicators.find(call.communicator);
    std::unique_ptr<TransferExchange> exchange;
    if (!call.transfers.empty()) exchange = std::make_unique<TransferExchange>(call.transfers);
    const Collective& collective = exchange ? *exchange : *find_collective(call.function);
    const int ranks = ranks_of(calls, call);
    const Shape shape = exchange ? exchange->shape(0, 1, ranks) : collective.call_shape(call.count, ranks);
    const Placement placement = call.in_place ? Placement::in_place : Placement::out_of_place;
    const RankCase rank_case{collective, shape, call.dtype, call.redop, std::max(0, call.root), seed};
    ReductionValues values(call.dtype, call.redop, ranks);
    std::optional<CaseBuffers> buffers;
    std::optional<Checker> checker;
    if (communicator) {
      communicator->enter(Phase::check);
      buffers.emplace(*communicator, shape, call.dtype, buffer_bytes, /*unalign_elements=*/0);
      checker.emplace(*communicator, *buffers, values, world.rank());
      checker->prepare(rank_case, placement);
    }
    world.barrier();
    RankCheckResult result;
    if (checker) {
      world.issued().next(buffers->region_bytes());
      collective.run(*communicator, buffers->call(placement, 0, rank_case.dtype, rank_case.redop, rank_case.root));
      communicator->synchronize();
      change_result(*communicator, rank_case, buffers->recv_data(placement));
      result = checker->verify_result(rank_case, placement);
    }
    world.barrier();
    if (checker) checker->verify_untouched(rank_case, placement, result);
    total.wrong_elements += result.wrong_elements;
    for (WrongElement& wrong : result.first_wrong) {
      if (total.first_wrong.size() == Mismatches::kKept) break;
      wrong.place += " of " + call_text(call);
      total.first_wrong.push_back(std::move(wrong));
    }
  }
  return total;
}

std::string check_policy(const MatchedCalls& calls) {
  std::string policy = "exact";
  for (const DistinctCall& call : calls.distinct_calls())
    if (call.transfers.empty() && find_collective(call.function)->reduces() && policy == "exact")
      policy = ReductionValues(call.dtype, call.redop, ranks_of(calls, call)).policy();
  return policy;
}

}  // namespace busbw
