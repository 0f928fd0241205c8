#pragma once
// Replay programs: the operations of one step of a job, for all ranks (schema/trace.md). `busbw replay` writes them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/trace/format.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// One operation of one rank.
struct ReplayOperation {
  int communicator = 0;  // index in ReplayProgram::communicators
  trace::Function function = trace::Function::all_reduce;
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;     // only functions that reduce use it
  std::size_t count = 0;        // elements, as in the call of NCCL
  int peer = -1;                // root, or peer of a send or receive: index in the communicator; -1: none
  std::uint32_t group = 0;      // successive operations with the same number form a group; 0: not in a group
  double gap_s = 0;             // duration of the computation that the operation waits for
  bool in_place = false;
  /// True if this computation runs during the communicator's previous operation. Operation 2 begins when
  /// computation 2 and operation 1 have ended:
  ///
  ///   false:  computation 1 | operation 1 | computation 2 | operation 2
  ///   true:   computation 1 | operation 1                 | operation 2
  ///                         | computation 2               |
  bool is_overlapped = false;

  bool is_transfer() const { return function == trace::Function::send || function == trace::Function::recv; }
};

/// Operations of one step.
struct ReplayProgram {
  std::string file;  // for messages
  std::string name;  // for the table and the records
  /// Ranks of the job in each communicator, ascending. ReplayOperation::peer is an index in this order.
  std::vector<std::vector<int>> communicators;
  std::vector<std::vector<ReplayOperation>> operations;  // [rank], in the order of the calls

  int ranks() const { return static_cast<int>(operations.size()); }
  int ranks_of(const ReplayOperation& operation) const {
    return static_cast<int>(communicators[static_cast<std::size_t>(operation.communicator)].size());
  }
  /// Bytes that a rank sends, and bytes that it receives. For functions with a root: the figures of the root.
  std::size_t sent_bytes(const ReplayOperation& operation) const;
  std::size_t received_bytes(const ReplayOperation& operation) const;
};

/// Name in collectives.toml, or "send" or "recv". "other" for a function that cannot be replayed.
std::string_view name(trace::Function function);

/// "rank 2, operation 5 (all_gather of 1024 float on communicator 1)", for messages. All numbers begin at 0.
std::string operation_text(const ReplayProgram& program, int rank, std::size_t operation);

/// Parses a program. Throws UsageError if the program has unknown or missing parts, a communicator without valid ranks,
/// or an operation that cannot be replayed. `file` begins the messages. MatchedCalls compares the ranks.
ReplayProgram parse_replay_program(std::string_view text, const std::string& file);

/// Reads a file and parses its program. Throws UsageError also if the file is unreadable.
ReplayProgram read_replay_program(const std::string& file);

}  // namespace busbw
