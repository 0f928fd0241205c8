#pragma once
// Errors carry what happened, what to do, and the exit code that means it.
#include <stdexcept>
#include <string>

namespace busbw {

/// Exit codes of every program; one meaning each (docs/compatibility.md).
enum class ExitCode : int {
  good = 0,
  wrong_data = 1,
  usage = 2,
  environment = 3,
  rank_lost = 4,
  slower_than_demanded = 5,
  interrupted = 130,    // SIGINT, as shells report it
  output_closed = 141,  // the reader of stdout went away, as shells report SIGPIPE
  terminated = 143,     // SIGTERM, as shells report it, and SIGHUP
};

/// One sentence for the user: what was wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit, const std::string& sentence) : std::runtime_error(sentence), exit_(exit) {}
  ExitCode exit() const { return exit_; }

 private:
  ExitCode exit_;
};

/// A doubt about the command line (exit 2).
struct UsageError : Error {
  explicit UsageError(const std::string& sentence) : Error(ExitCode::usage, sentence) {}
};

/// Something the machine lacks (exit 3).
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& sentence) : Error(ExitCode::environment, sentence) {}
};

/// Thrown by a wait when the job has been aborted elsewhere: the first error stands in the job, this one only unwinds.
struct JobAborted : std::exception {
  const char* what() const noexcept override { return "the job was aborted by another rank"; }
};

}  // namespace busbw
