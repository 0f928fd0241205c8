#pragma once
// Errors that end a program, with a message for the user and an exit code.
#include <stdexcept>
#include <string>

namespace busbw {

/// Exit codes of every program, each with one meaning (docs/reference/exit-codes.md).
enum class ExitCode : int {
  good = 0,
  wrong_data = 1,
  usage = 2,
  environment = 3,
  rank_lost = 4,
  slower_than_demanded = 5,
  interrupted = 130,    // SIGINT, as shells report it
  output_closed = 141,  // the reader of stdout closed it; as shells report SIGPIPE
  terminated = 143,     // SIGTERM or SIGHUP, as shells report SIGTERM
};

/// Error for the user. The message is one sentence that names object, problem and remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit, const std::string& message) : std::runtime_error(message), exit_(exit) {}
  ExitCode exit() const { return exit_; }

 private:
  ExitCode exit_;
};

/// Invalid command line (exit 2).
struct UsageError : Error {
  explicit UsageError(const std::string& message) : Error(ExitCode::usage, message) {}
};

/// Problem of the machine or its environment (exit 3).
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& message) : Error(ExitCode::environment, message) {}
};

/// Thrown by waits after the job was aborted, to unwind this rank. Another rank or process, a signal or the watchdog
/// aborts a job. The job already holds the failure to report.
struct JobAborted : std::exception {
  const char* what() const noexcept override { return "the job was aborted"; }
};

}  // namespace busbw
