#pragma once
// Interface of a job for the code that runs its ranks: teams, progress of the ranks, and the failure. LocalJob
// implements it for one host, LaunchedJob for separately started processes.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"
#include "values/phase.hpp"

namespace busbw {

/// First failure of a job.
struct Failure {
  ExitCode exit = ExitCode::good;
  std::string message;
  std::vector<std::string> details = {};  // diagnosis of the ranks, only in the process that diagnosed
  bool timed_out = false;                 // -T ended the job; known only in the process that detected the stall
};

/// Loss of a process, and so of its ranks, that does not end the job.
struct Loss {
  std::string host;  // "unknown (process 3)" if the host is not known
  std::string reason;
};

/// Progress of one rank. Each call of the rank's team adds steps, equally many in all ranks, and all ranks make the
/// same calls. So the other ranks wait for the rank with the fewest steps.
struct RankProgress {
  Phase phase = Phase::rendezvous;
  std::uint64_t steps = 0;
  std::uint64_t operations = 0;       // number of issued operations
  std::uint64_t operation_bytes = 0;  // size of the last issued operation
};

/// All processes that one launcher starts for one run, or one process if there is no launcher.
class Job {
 public:
  virtual ~Job() = default;
  virtual int ranks() const = 0;
  /// Returns the team of all ranks, for use by `rank`.
  virtual std::unique_ptr<Team> team(int rank) = 0;
  /// Ends every wait in the job with JobAborted. Thread-safe; the first failure is kept.
  virtual void abort(ExitCode exit, const std::string& message) noexcept = 0;
  virtual bool aborted() const noexcept = 0;
  /// Returns the reason for the abort, or nothing while the job is not aborted.
  virtual std::optional<Failure> failure() const = 0;
  /// Returns an initial RankProgress if this process does not know the rank's (see watches_all_ranks).
  virtual RankProgress progress(int rank) const = 0;
  /// Returns the ranks of processes that are stopped (SIGSTOP), or silent in a launched job. Empty also if the states
  /// of the processes are unknown.
  virtual std::vector<int> stopped_ranks() const { return {}; }
  /// Sets whether the job continues after a later loss of a process other than process 0. Call it in every process,
  /// because a process may only withdraw from a job that continues. A job on one host ignores this setting, because
  /// every loss aborts such a job.
  virtual void tolerate_losses(bool /*is_tolerated*/) {}
  /// Counts the processes of hanging ranks as lost, with `reason`. Returns false, and does nothing, if the job cannot
  /// continue without them or if `ranks` is empty.
  virtual bool lose_ranks(const std::vector<int>& /*ranks*/, const std::string& /*reason*/) { return false; }
  /// Ends the ranks of this process, which then counts as lost. Returns false, and does nothing, if the job cannot
  /// continue without this process. `reason`: rest of the sentence about the process.
  virtual bool withdraw(const std::string& /*reason*/) { return false; }
  /// True after this process has withdrawn. Later errors of its ranks are then consequences, not failures of the job.
  virtual bool has_withdrawn() const { return false; }
  /// Returns the ranks of lost processes with the losses. Empty also if the losses are unknown.
  virtual std::map<int, Loss> lost_ranks() const { return {}; }
  /// Returns the rank's name for messages: "rank 3", with its host in a launched job.
  virtual std::string rank_name(int rank) const { return "rank " + std::to_string(rank); }
  /// Returns `message` for people, in a launched job with the rank's name before it.
  virtual std::string with_rank_name(int /*rank*/, const std::string& message) const { return message; }
  /// True if this process sees the progress of all ranks. It must then detect a stall.
  virtual bool watches_all_ranks() const { return true; }
};

}  // namespace busbw
