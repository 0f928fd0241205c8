// Runs each distinct call (DistinctCall) with known data, and compares the results.
#include "replay/step_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "collectives/registry.hpp"
#include "measure/buffers.hpp"
#include "replay/replay_step.hpp"

namespace busbw {
namespace {

/// Makes a collective of the transfers, with elements of one byte.
std::unique_ptr<Collective> make_exchange(const std::vector<MatchedTransfer>& transfers, int ranks) {
  TrafficMatrix matrix{ranks, std::vector<std::uint64_t>(static_cast<std::size_t>(ranks) * ranks)};
  for (const MatchedTransfer& transfer : transfers)
    matrix.cells[static_cast<std::size_t>(transfer.from) * ranks + transfer.to] = transfer.bytes;
  return make_alltoallv({.alltoallv = {.pattern = ByteMatrix{std::move(matrix)}}});
}

std::string call_text(const DistinctCall& call) {
  if (!call.transfers.empty()) return fmt::format("send and receive on communicator {}", call.communicator);
  return fmt::format("{} of {} {} on communicator {}", name(call.function), call.count, name(call.dtype),
                     call.communicator);
}

int ranks_of(const MatchedCalls& calls, const DistinctCall& call) {
  return static_cast<int>(calls.program().communicators[static_cast<std::size_t>(call.communicator)].size());
}

/// Runs a call and checks its result. All ranks of `world` call this function, also those outside of the communicator,
/// for which `communicator` is null. `ranks`: size of the communicator.
RankCheckResult check_call(const DistinctCall& call, int ranks, Communicator* communicator, std::uint64_t buffer_bytes,
                           Team& world, std::uint64_t seed, const ResultChange& change_result) {
  world.enter(Phase::check);
  std::unique_ptr<Collective> exchange;
  if (!call.transfers.empty()) exchange = make_exchange(call.transfers, ranks);
  const Collective& collective = exchange ? *exchange : *find_collective(call.function);
  // The matrix of an exchange determines all counts, so the argument `count` has no effect.
  const Shape shape =
      exchange ? exchange->shape(/*count=*/0, /*element_bytes=*/1, ranks) : collective.call_shape(call.count, ranks);
  const Placement placement = call.in_place ? Placement::in_place : Placement::out_of_place;
  const int root = std::max(0, call.root);  // -1 if the collective has no root
  const RankCase rank_case{collective, shape, call.dtype, call.redop, root, seed};
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
    world.issued().next(buffers->region_bytes());  // number and size of this operation, for the watchdog
    collective.run(*communicator, buffers->call(placement, 0, rank_case.dtype, rank_case.redop, rank_case.root));
    communicator->synchronize();
    change_result(*communicator, rank_case, buffers->recv_data(placement));
    result = checker->verify_result(rank_case, placement);
  }
  world.barrier();
  if (checker) checker->verify_untouched(rank_case, placement, result);
  return result;
}

}  // namespace

RankCheckResult check_calls(const MatchedCalls& calls, const ReplayCommunicators& communicators, Team& world,
                            std::uint64_t seed, const ResultChange& change_result) {
  const std::uint64_t buffer_bytes = communicators.first().recv_buffer().size() - 2 * kGuardBytes;
  RankCheckResult total;
  for (const DistinctCall& call : calls.distinct_calls()) {
    RankCheckResult result = check_call(call, ranks_of(calls, call), communicators.find(call.communicator),
                                        buffer_bytes, world, seed, change_result);
    total.wrong_elements += result.wrong_elements;
    for (WrongElement& wrong : result.first_wrong) {
      if (total.first_wrong.size() == Mismatches::kKept) break;
      wrong.place += " of " + call_text(call);
      total.first_wrong.push_back(std::move(wrong));
    }
  }
  return total;
}

std::string step_exactness(const MatchedCalls& calls) {
  for (const DistinctCall& call : calls.distinct_calls()) {
    const bool reduces = call.transfers.empty() && find_collective(call.function)->reduces();
    if (!reduces) continue;
    std::string exactness = ReductionValues(call.dtype, call.redop, ranks_of(calls, call)).exactness();
    if (exactness != "exact") return exactness;
  }
  return "exact";
}

}  // namespace busbw
