#pragma once
// Log for BUSBW_FASTPATH_LOG: one line for each kind of operation and its method, and messages about communicators.
// Each line is written with one system call, so lines of several processes do not mix.
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "fastpath/choice/table.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// An operation that a program has started, as the log describes it.
struct StartedOperation {
  Collective collective = Collective::all_reduce;
  std::string_view type;           // "half"
  std::size_t size_bytes = 0;      // as nccl-tests counts sizes
  int ranks = 0;
  bool in_place = false;
  MethodConfig config;  // the method that runs it; `nccl`: delegated
};

/// Writes the log lines of this process. Thread-safe. The file is created with the first line and closed after each
/// line, so a forked process shares no descriptor with its parent.
class MethodLog {
 public:
  /// `destination` is "stderr" or a file name, in which "%p" is replaced by the process id. Empty: log nothing.
  explicit MethodLog(std::string destination) : destination_(std::move(destination)) {}

  /// True if the log has a destination. A caller can check this before it computes the content of a line.
  bool is_on() const noexcept { return !destination_.empty(); }
  /// Logs an operation, unless the same line was logged before.
  void log_operation(const StartedOperation& operation) noexcept;
  /// Logs a message, also if it repeats an earlier one.
  void log_message(std::string_view message) noexcept;

 private:
  void write(std::string_view message);

  const std::string destination_;
  std::mutex mutex_;
  std::set<std::string> logged_lines_;
  std::atomic<bool> error_reported_{false};
};

/// Returns the log of this process. settings().log names its destination.
MethodLog& log() noexcept;

}  // namespace busbw::fastpath
