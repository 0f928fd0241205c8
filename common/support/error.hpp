#pragma once
// Errors with a message, a remedy and an exit code.
#include <stdexcept>
#include <string>

namespace busbw {

/// Exit codes of every program, each with one meaning (docs/compatibility.md).
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

/// Error for the user. The sentence names object, problem and remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit, const std::string& sentence) : std::runtime_error(sentence), exit_(exit) {}
  ExitCode exit() const { return exit_; }

 private:
  ExitCode exit_;
};

/// Invalid command line (exit 2).
struct UsageError : Error {
  explicit UsageError(const std::string& sentence) : Error(ExitCode::usage, sentence) {}
};

/// Problem of the machine or its environment (exit 3).
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& sentence) : Error(ExitCode::environment, sentence) {}
};

/// Thrown by waits after the job was aborted elsewhere. The job keeps the first failure; this exception only unwinds.
struct JobAborted : std::exception {
  const char* what() const noexcept override { return "the job was aborted by another rank"; }
};

}  // namespace busbw
