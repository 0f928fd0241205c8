#pragma once
// Runs the ranks of a job in threads and processes, and watches them: time limits, signals, lost processes. The first
// failure aborts the job.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/local_job.hpp"

namespace busbw {

/// Number and arrangement of the ranks, and the facts that the watchdog needs.
struct JobSettings {
  int processes = 1;  // number of processes to fork; 1: none, the ranks run in this process
  int ranks_per_process = 1;
  double limit_s = 0;           // maximum time without progress, see Watchdog
  std::string collective = {};  // collective that the ranks run, for messages
};

/// Work of the ranks and the end of the run.
struct JobCallbacks {
  /// Runs one rank, each in its own thread. May throw.
  std::function<void(int rank)> run_rank;
  /// Called after the ranks of a process have ended or were abandoned: by `run_job` only in the process of rank 0, by
  /// `run_process_of_job` in every process. Returns the exit code.
  std::function<int(const std::optional<Failure>&)> finish;
  /// Returns what the measured library reports about hanging or lost ranks. May take several seconds. With forked
  /// processes, it is called only in the process of rank 0.
  std::function<std::vector<std::string>()> diagnose = [] { return std::vector<std::string>(); };
};

/// Aborts the job with the current exception as the failure of `rank`, or withdraws this process if the job continues
/// without it. Call from a catch block. The job keeps its first failure.
void report_failure(Job& job, int rank);

struct JobResult {
  int exit_code = 0;
  std::string message = {};  // for stderr; empty if the job has no message
  bool abandoned = false;  // a rank did not end after an abort, so the process must end without joining its threads
};

/// Runs all ranks of the job. Returns when each rank has ended or was abandoned.
JobResult run_job(LocalJob& job, const JobSettings& settings, const JobCallbacks& callbacks);
/// In a job with separately started processes, runs the ranks of this process: `settings.ranks_per_process` ranks from
/// `first_rank` on. The exit code of the result is that of this process.
JobResult run_process_of_job(Job& job, int first_rank, const JobSettings& settings, const JobCallbacks& callbacks);

}  // namespace busbw
