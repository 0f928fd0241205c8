#pragma once
// The search that process 0 starts, so that a job needs no standard input: batch jobs and pods have none.
#include <sys/types.h>

#include <string>

#include "common/os/descriptor.hpp"
#include "common/os/signal_mask.hpp"

namespace busbw {

/// A running command that searches, such as `busbw find`. It has standard output and error of this process.
class SearchProcess {
 public:
  /// Starts the words of a shell with ` --connected ANSWERS,REQUESTS`: the descriptors that it reads and writes. The
  /// folder of this program is the first one on its PATH. Throws EnvironmentError if there is no shell or pipe.
  /// `program` begins the messages.
  SearchProcess(std::string program, const std::string& command);
  /// Kills the command if it still runs.
  ~SearchProcess();
  SearchProcess(const SearchProcess&) = delete;
  SearchProcess& operator=(const SearchProcess&) = delete;

  /// Descriptor on which the requests of the search arrive.
  int requests_fd() const { return requests_.number(); }
  /// Descriptor that takes the answers.
  int answers_fd() const { return answers_.number(); }

  /// Closes the pipes after the job has ended with `job_code`, passes its interrupt on, and waits for the search, which
  /// reports what it knows. Returns the exit code of this process: that of the job, or of the search if the job
  /// succeeded or if the search reports the lost process. Prints an error if there is no such command.
  int finish(int job_code);

 private:
  std::string program_;
  SignalMask mask_;  // `finish` polls for signals
  Descriptor requests_;
  Descriptor answers_;
  pid_t pid_ = -1;  // -1 after its end
};

}  // namespace busbw
