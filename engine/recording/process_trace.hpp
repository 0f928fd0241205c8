#pragma once
// The trace file of a process of the engine, with the operations of all ranks of the process. Ranks are threads.
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "common/trace/trace_file.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// State of one rank that its communicators share.
struct RecordedRank {
  std::uint32_t thread = 0;           // number of the rank's thread in the file
  std::uint32_t operation_group = 0;  // number of the open begin_group(); 0: none is open
};

/// A communicator of one rank in the file.
struct RecordedCommunicator {
  std::uint16_t index;
  RecordedRank* rank;  // valid as long as the file
};

/// The file, and the numbers of its communicators, operation groups and ranks. All functions may be called by any
/// thread.
class ProcessTrace {
 public:
  /// `rank` and `size`: of this process in the job. Throws EnvironmentError if the file cannot be created.
  ProcessTrace(const trace::TraceSettings& settings, int rank, int size);

  /// Adds a communicator of a rank. All `members` of the communicator must call this, because the first member chooses
  /// the id of the communicator and sends it to the others.
  RecordedCommunicator add_communicator(int world_rank, Team& members);
  trace::TraceFile& file() { return file_; }
  /// Number of a new operation group, from 1 on.
  std::uint32_t next_operation_group() { return ++operation_groups_; }
  /// Nanoseconds since the start of the file, from 1 on.
  std::uint64_t now_ns() const;

 private:
  double start_s_;
  trace::TraceFile file_;
  std::mutex mutex_;
  std::uint16_t communicators_ = 0;
  std::map<int, RecordedRank> ranks_;  // by world rank
  std::atomic<std::uint32_t> operation_groups_{0};
};

}  // namespace busbw
