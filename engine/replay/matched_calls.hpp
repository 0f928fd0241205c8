#pragma once
// Matches the operations of a replay program over its ranks, because ranks with different operations would hang.
#include <compare>
#include <cstddef>
#include <vector>

#include "replay/replay_program.hpp"

namespace busbw {

/// Operations that a rank issues at once on one communicator: a collective, or transfers with at most one send and one
/// receive for each peer, which Communicator::exchange runs.
struct ReplayCall {
  int communicator = 0;
  bool is_exchange = false;
  std::vector<std::size_t> operations = {};  // indexes in the rank's operations; one for a collective
  bool begins_group = false;                 // the first call of a group (ReplayOperation::group)
  bool ends_group = false;                   // the last call of a group
  std::size_t match = 0;                     // equal for calls that wait for each other
};

/// Data that one rank of a communicator sends to another one. `from` and `to` are indexes in the communicator.
struct MatchedTransfer {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;

  auto operator<=>(const MatchedTransfer&) const = default;
};

/// A call as the check repeats it. All ranks of the communicator take part.
struct DistinctCall {
  int communicator = 0;
  trace::Function function = trace::Function::send;  // of a collective; send for an exchange
  Dtype dtype = Dtype::uint8;
  Redop redop = Redop::sum;
  std::size_t count = 0;  // of a collective
  int root = -1;  // index in the communicator; -1: none
  bool in_place = false;
  std::vector<MatchedTransfer> transfers = {};  // of an exchange

  auto operator<=>(const DistinctCall&) const = default;
};

/// A program with the calls of all ranks.
class MatchedCalls {
 public:
  /// Throws UsageError, with rank and operation, if the ranks of a communicator do not call the same collectives, or if
  /// a send or receive has no counterpart of its size.
  explicit MatchedCalls(ReplayProgram program);

  const ReplayProgram& program() const { return program_; }
  /// Calls of a rank in order. In a group, the collectives come first.
  const std::vector<ReplayCall>& of_rank(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }
  /// Throws UsageError if ranks would wait for each other in a circle on the host backend, on which each call ends
  /// before the next one begins. On a GPU, operations of different communicators may be issued in any order.
  void require_blocking_order() const;
  /// All calls, equal ones only once, in an order that is the same in all processes.
  std::vector<DistinctCall> distinct_calls() const;

 private:
  void match_collectives();
  void match_transfers();

  ReplayProgram program_;
  std::vector<std::vector<ReplayCall>> calls_;                // [rank]
  /// Each collective and each single transfer, with its match. Equal ones occur repeatedly.
  std::vector<std::pair<DistinctCall, std::size_t>> occurrences_;
};

}  // namespace busbw
