// Groups the operations of each rank into calls, and finds for each call the calls of other ranks that wait for it.
// Calls that wait for each other get the same number, their match.
#include "replay/matched_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

UsageError problem(const ReplayProgram& program, int rank, std::size_t operation, const std::string& message) {
  return UsageError(
      fmt::format("{}: {}: {}", printable_value(program.file), operation_text(program, rank, operation), message));
}

/// Adds the calls of the operations [first, end), which are one group or a single operation, to `calls`.
void add_calls(const std::vector<ReplayOperation>& operations, std::size_t first, std::size_t end,
               std::vector<ReplayCall>& calls) {
  const std::size_t first_call = calls.size();
  // An exchange has at most one send to each peer, so the n-th send to a peer belongs to the n-th exchange. The same is
  // true of receives.
  std::map<std::pair<int, std::size_t>, ReplayCall> exchanges;  // by communicator and number of the exchange
  std::map<std::tuple<int, trace::Function, int>, std::size_t> transfer_counts;  // by communicator, function and peer
  for (std::size_t i = first; i < end; ++i) {
    const ReplayOperation& operation = operations[i];
    if (!operation.is_transfer()) {
      calls.push_back({.communicator = operation.communicator, .operations = {i}});
      continue;
    }
    std::size_t& transfer_count = transfer_counts[{operation.communicator, operation.function, operation.peer}];
    auto& exchange = exchanges[{operation.communicator, transfer_count}];
    ++transfer_count;
    exchange.communicator = operation.communicator;
    exchange.is_exchange = true;
    exchange.operations.push_back(i);
  }
  // Collectives by communicator, then exchanges: the same order on all ranks, because the host backend runs the calls
  // one after the other.
  std::stable_sort(calls.begin() + static_cast<std::ptrdiff_t>(first_call), calls.end(),
                   [](const ReplayCall& a, const ReplayCall& b) { return a.communicator < b.communicator; });
  for (auto& [key, exchange] : exchanges) calls.push_back(std::move(exchange));
  if (operations[first].group == 0) return;
  calls[first_call].begins_group = true;
  calls.back().ends_group = true;
}

std::vector<ReplayCall> make_calls(const std::vector<ReplayOperation>& operations) {
  std::vector<ReplayCall> calls;
  for (std::size_t first = 0; first < operations.size();) {
    const std::uint32_t group = operations[first].group;
    std::size_t end = first + 1;
    if (group != 0)
      while (end < operations.size() && operations[end].group == group) ++end;
    add_calls(operations, first, end, calls);
    first = end;
  }
  return calls;
}

/// Sets of calls that wait for each other, as a union-find structure. A call is a pair of rank and index.
class CallSets {
 public:
  explicit CallSets(const std::vector<std::vector<ReplayCall>>& calls) {
    std::size_t count = 0;
    for (const auto& rank_calls : calls) {
      first_of_rank_.push_back(count);
      count += rank_calls.size();
    }
    parents_.resize(count);
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  }
  /// Returns the number of the set that contains the call.
  std::size_t find(int rank, std::size_t call) {
    std::size_t element = first_of_rank_[static_cast<std::size_t>(rank)] + call;
    while (parents_[element] != element) {
      parents_[element] = parents_[parents_[element]];  // shortens the path for later searches
      element = parents_[element];
    }
    return element;
  }
  void join(int rank_a, std::size_t call_a, int rank_b, std::size_t call_b) {
    parents_[find(rank_a, call_a)] = find(rank_b, call_b);
  }

 private:
  std::vector<std::size_t> first_of_rank_;  // element of the first call of each rank
  /// [element]: another element of the same set. One element of each set has itself; it is the number of the set.
  std::vector<std::size_t> parents_;
};

/// Position of an operation in the program.
struct OperationPlace {
  int rank;
  std::size_t call;  // index in the rank's calls
  std::size_t operation;  // index in the rank's operations
};

const ReplayOperation& operation_at(const ReplayProgram& program, const OperationPlace& place) {
  return program.operations[static_cast<std::size_t>(place.rank)][place.operation];
}

/// Collectives of each rank of a communicator, in the order of the calls. A rank without a collective has an empty
/// list.
using CollectivesByRank = std::map<int, std::vector<OperationPlace>>;

std::vector<CollectivesByRank> collectives_by_communicator(const MatchedCalls& calls) {
  const ReplayProgram& program = calls.program();
  std::vector<CollectivesByRank> collectives(program.communicators.size());
  for (std::size_t i = 0; i < program.communicators.size(); ++i)
    for (const int rank : program.communicators[i]) collectives[i].try_emplace(rank);
  for (int rank = 0; rank < program.ranks(); ++rank) {
    for (std::size_t index = 0; index < calls.of_rank(rank).size(); ++index) {
      const ReplayCall& call = calls.of_rank(rank)[index];
      if (call.is_exchange) continue;
      collectives[static_cast<std::size_t>(call.communicator)][rank].push_back({rank, index, call.operations.front()});
    }
  }
  return collectives;
}

bool is_same_collective(const ReplayOperation& a, const ReplayOperation& b) {
  return a.function == b.function && a.dtype == b.dtype && a.redop == b.redop && a.count == b.count && a.peer == b.peer;
}

/// Throws UsageError if `places`, the collectives of `rank`, differ from those of `reference_rank`.
void require_same_collectives(const ReplayProgram& program, int rank, const std::vector<OperationPlace>& places,
                              int reference_rank, const std::vector<OperationPlace>& reference) {
  for (std::size_t i = 0; i < std::max(places.size(), reference.size()); ++i) {
    const bool is_missing_here = i >= places.size();
    if (is_missing_here || i >= reference.size()) {
      const OperationPlace& extra = is_missing_here ? reference[i] : places[i];
      throw problem(program, extra.rank, extra.operation,
                    fmt::format("rank {} has no such operation; all ranks of a communicator must have the same ones",
                                is_missing_here ? rank : reference_rank));
    }
    if (!is_same_collective(operation_at(program, places[i]), operation_at(program, reference[i])))
      throw problem(program, rank, places[i].operation,
                    fmt::format("it differs from {}; all ranks of a communicator must have the same operations",
                                operation_text(program, reference_rank, reference[i].operation)));
  }
}

/// Transfers from one rank of a communicator to another one, in the order of the calls.
struct Transfers {
  std::vector<OperationPlace> sends;
  std::vector<OperationPlace> recvs;
};

/// Returns all transfers, by communicator, and by the sender's and the receiver's index in it.
std::map<std::tuple<int, int, int>, Transfers> transfers_by_ranks(const MatchedCalls& calls) {
  const ReplayProgram& program = calls.program();
  std::map<std::tuple<int, int, int>, Transfers> transfers;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    for (std::size_t call = 0; call < calls.of_rank(rank).size(); ++call) {
      const ReplayCall& exchange = calls.of_rank(rank)[call];
      if (!exchange.is_exchange) continue;
      const auto& members = program.communicators[static_cast<std::size_t>(exchange.communicator)];
      const int own_index = static_cast<int>(std::ranges::find(members, rank) - members.begin());
      for (const std::size_t index : exchange.operations) {
        const OperationPlace place{rank, call, index};
        const ReplayOperation& operation = operation_at(program, place);
        if (operation.function == trace::Function::send)
          transfers[{exchange.communicator, own_index, operation.peer}].sends.push_back(place);
        else
          transfers[{exchange.communicator, operation.peer, own_index}].recvs.push_back(place);
      }
    }
  }
  return transfers;
}

/// Throws UsageError if a send or a receive has no counterpart of its size. `transfers` are those between two ranks.
void require_counterparts(const ReplayProgram& program, const Transfers& transfers) {
  const auto& [sends, recvs] = transfers;
  const std::size_t matched = std::min(sends.size(), recvs.size());
  for (std::size_t i = 0; i < matched; ++i)
    if (program.sent_bytes(operation_at(program, sends[i])) != program.received_bytes(operation_at(program, recvs[i])))
      throw problem(program, sends[i].rank, sends[i].operation,
                    fmt::format("its size differs from {}; use the same size",
                                operation_text(program, recvs[i].rank, recvs[i].operation)));
  if (sends.size() > matched)
    throw problem(program, sends[matched].rank, sends[matched].operation,
                  "no receive belongs to it; replay a step with all ranks");
  if (recvs.size() > matched)
    throw problem(program, recvs[matched].rank, recvs[matched].operation,
                  "no send belongs to it; replay a step with all ranks");
}

}  // namespace

MatchedCalls::MatchedCalls(ReplayProgram program) : program_(std::move(program)) {
  for (const auto& operations : program_.operations) calls_.push_back(make_calls(operations));
  match_collectives();
  match_transfers();
}

void MatchedCalls::match_collectives() {
  std::size_t match = 0;  // of the communicator's first collective
  for (const CollectivesByRank& by_rank : collectives_by_communicator(*this)) {
    const auto& [reference_rank, reference] = *by_rank.begin();
    for (const auto& [rank, places] : by_rank) {
      require_same_collectives(program_, rank, places, reference_rank, reference);
      for (std::size_t i = 0; i < places.size(); ++i)
        calls_[static_cast<std::size_t>(rank)][places[i].call].match = match + i;
    }
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const ReplayOperation& operation = operation_at(program_, reference[i]);
      occurrences_.emplace_back(DistinctCall{.communicator = operation.communicator,
                                             .function = operation.function,
                                             .dtype = operation.dtype,
                                             .redop = operation.redop,
                                             .count = operation.count,
                                             .root = operation.peer,  // a collective has its root here
                                             .in_place = operation.in_place},
                                match + i);
    }
    match += reference.size();
  }
}

void MatchedCalls::match_transfers() {
  CallSets sets(calls_);
  std::vector<std::pair<DistinctCall, OperationPlace>> transfers_and_sends;  // each transfer, and the place of its send
  for (const auto& [key, transfers] : transfers_by_ranks(*this)) {
    require_counterparts(program_, transfers);
    const auto [communicator, from, to] = key;
    for (std::size_t i = 0; i < transfers.sends.size(); ++i) {
      const OperationPlace& send = transfers.sends[i];
      const OperationPlace& recv = transfers.recvs[i];
      sets.join(send.rank, send.call, recv.rank, recv.call);
      const std::size_t bytes = program_.sent_bytes(operation_at(program_, send));
      transfers_and_sends.emplace_back(DistinctCall{.communicator = communicator, .transfers = {{from, to, bytes}}},
                                       send);
    }
  }
  // Each match of a collective has one occurrence, so their number is the first free match.
  const std::size_t first_match = occurrences_.size();
  for (int rank = 0; rank < program_.ranks(); ++rank) {
    std::vector<ReplayCall>& rank_calls = calls_[static_cast<std::size_t>(rank)];
    for (std::size_t index = 0; index < rank_calls.size(); ++index)
      if (rank_calls[index].is_exchange) rank_calls[index].match = first_match + sets.find(rank, index);
  }
  // The matches of the calls are known only after all sets are joined.
  for (auto& [transfer, send] : transfers_and_sends)
    occurrences_.emplace_back(std::move(transfer), of_rank(send.rank)[send.call].match);
}

// Simulates ranks that issue one call at a time. A call ends when all calls of its match have been issued. Throws if a
// rank does not reach the end of its list.
void MatchedCalls::require_blocking_order() const {
  // A rank with several calls of a match occurs several times. Its first call then never ends, because it waits for the
  // rank's next one.
  std::map<std::size_t, std::vector<int>> ranks_of_match;
  for (int rank = 0; rank < program_.ranks(); ++rank)
    for (const ReplayCall& call : of_rank(rank)) ranks_of_match[call.match].push_back(rank);
  std::vector<std::size_t> next(calls_.size());  // [rank]: index of its next call
  std::map<std::size_t, std::size_t> arrived;  // number of ranks that wait in a match
  std::vector<int> runnable(calls_.size());
  std::iota(runnable.begin(), runnable.end(), 0);
  while (!runnable.empty()) {
    const int rank = runnable.back();
    runnable.pop_back();
    const std::size_t position = next[static_cast<std::size_t>(rank)];
    if (position == of_rank(rank).size()) continue;
    const std::size_t match = of_rank(rank)[position].match;
    ++arrived[match];
    const auto& members = ranks_of_match[match];
    if (arrived[match] < members.size()) continue;
    for (const int member : members) {
      ++next[static_cast<std::size_t>(member)];
      runnable.push_back(member);
    }
  }
  for (int rank = 0; rank < program_.ranks(); ++rank) {
    const std::size_t position = next[static_cast<std::size_t>(rank)];
    if (position == of_rank(rank).size()) continue;
    throw problem(program_, rank, of_rank(rank)[position].operations.front(),
                  "the ranks issue operations in different orders, so on the host they would wait for each other "
                  "forever; replay it on GPUs");
  }
}

std::vector<DistinctCall> MatchedCalls::distinct_calls() const {
  std::set<DistinctCall> distinct;
  // Exchanges over all ranks, rebuilt from the transfers of each match. A match with several transfers between the same
  // sender and receiver needs several exchanges: its n-th such transfer belongs to its n-th exchange.
  std::map<std::pair<std::size_t, std::size_t>, DistinctCall> rebuilt_exchanges;  // by match and number within it
  std::map<std::tuple<std::size_t, int, int>, std::size_t> transfer_counts;  // by match, sender and receiver
  for (const auto& [call, match] : occurrences_) {
    if (call.transfers.empty()) {
      distinct.insert(call);
      continue;
    }
    const MatchedTransfer& transfer = call.transfers.front();
    std::size_t& transfer_count = transfer_counts[{match, transfer.from, transfer.to}];
    DistinctCall& exchange = rebuilt_exchanges[{match, transfer_count}];
    ++transfer_count;
    exchange.communicator = call.communicator;
    exchange.transfers.push_back(transfer);
  }
  for (auto& [key, exchange] : rebuilt_exchanges) distinct.insert(std::move(exchange));
  return {distinct.begin(), distinct.end()};
}

}  // namespace busbw
