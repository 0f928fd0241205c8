#pragma once
// Starts the ranks of a job as threads and processes, watches over them, and ends them: time limits, signals, deaths.
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/local_job.hpp"

namespace busbw {

struct JobLayout {
  int processes = 1;
  int ranks_per_process = 1;
  double limit_s = 0;  // see Watchdog
  std::string collective = {};  // that the ranks run
};

struct JobCallbacks {
  /// What each rank does, in a thread of its own. May throw.
  std::function<void(int rank)> run_rank;
  /// Called once, in the process of rank 0, after its ranks have ended or were given up. Returns the exit code.
  std::function<int(const std::optional<Failure>&)> finish;
  /// What the library that is measured says of the ranks here, while they hang or just after one was lost: up to some
  /// seconds of asking. Of forked processes only that of rank 0 is asked.
  std::function<std::vector<std::string>()> diagnose = [] { return std::vector<std::string>(); };
};

struct JobOutcome {
  int exit_code = 0;
  std::string message;  // for stderr; empty when there is nothing to say
};

/// While one exists, signals that end a job wait for `run_job` instead of ending the process, and a closed pipe and a
/// file that may not grow are errors. `run_job` has its own; a program makes one before it opens outputs, so that
/// Ctrl-C never finds them half made.
class SignalMask {
 public:
  SignalMask();
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t before_{};
};

/// Throws Error where a signal that a SignalMask holds back has come: for waits before `run_job`.
void throw_if_interrupted();

/// While an exception that a rank threw is handled: its reason goes to all ranks of the job. The first one stands.
void report_failure(Job& job, int rank);

/// Returns when every rank has ended. A rank that does not end after an abort is left behind: `abandoned` then says
/// that the process must end without waiting for its threads.
struct JobResult {
  JobOutcome outcome;
  bool abandoned = false;
};
JobResult run_job(LocalJob& job, const JobLayout& layout, const JobCallbacks& callbacks);
/// The same for this process's part of a job whose processes were started apart: its ranks, from `first_rank` on.
/// `finish` is called in every process; what it returns is the process's exit code.
JobResult run_process_of_job(Job& job, int first_rank, const JobLayout& layout, const JobCallbacks& callbacks);

}  // namespace busbw
