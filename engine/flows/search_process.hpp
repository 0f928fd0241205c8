#pragma once
// The search decides which flows the job measures: `busbw find` or a similar command. It is a child of process 0,
// connected by pipes, so the job needs no standard input, which batch jobs and pods do not have.
#include <sys/types.h>

#include <string>

#include "common/os/descriptor.hpp"
#include "common/os/signal_mask.hpp"

namespace busbw {

/// The running command of the search. It inherits this process's standard output and standard error.
class SearchProcess {
 public:
  /// Starts `command` with a shell, and appends ` --connected ANSWERS,REQUESTS`. The command reads answers from the
  /// first descriptor and writes requests to the second one. The folder of this program is the first one on the
  /// command's PATH. `program` begins the messages. Throws EnvironmentError if there is no shell or pipe.
  SearchProcess(std::string program, const std::string& command);
  /// Kills the command if it still runs.
  ~SearchProcess();
  SearchProcess(const SearchProcess&) = delete;
  SearchProcess& operator=(const SearchProcess&) = delete;

  /// Descriptor on which the requests of the search arrive.
  int requests_fd() const { return requests_.number(); }
  /// Descriptor that takes the answers.
  int answers_fd() const { return answers_.number(); }

  /// Ends the search after the job has ended with `job_code`. If a signal ended the job, passes it on. Closes the
  /// pipes, and waits until the search has reported its results. Returns the exit code of this process:
  /// - `job_code` if the job failed. Exception: after ExitCode::rank_lost, the search returns `slower_than_demanded` if
  ///   it reports the lost process as a finding. The result is then `slower_than_demanded`, too.
  /// - ExitCode::environment, with an error message, if the command does not exist.
  /// - Otherwise the code of the search.
  int finish(int job_code);

 private:
  std::string program_;
  SignalMask mask_;  // `finish` polls for signals
  Descriptor requests_;
  Descriptor answers_;
  pid_t pid_ = -1;  // -1 if the command does not run
};

}  // namespace busbw
