#pragma once
// Status of any process of this machine, from /proc/PID/stat.
#include <filesystem>
#include <optional>
#include <string>

namespace busbw {

struct ProcessStatus {
  std::string command;  // the kernel's process name (comm), at most 15 bytes
  char state = '?';     // the kernel's letter: R running, S sleeping, T stopped, t stopped by a debugger, Z ended
  long parent_pid = 0;

  bool is_stopped() const { return state == 'T' || state == 't'; }
};

/// Returns the status of a process, or nothing if /proc does not show it. Only tests pass another `proc`.
std::optional<ProcessStatus> read_process_status(long pid, const std::filesystem::path& proc = "/proc");

}  // namespace busbw
