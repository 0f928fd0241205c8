#pragma once
// Status and ancestors of any process of this machine, from /proc/PID/stat, to find stopped ranks and launchers.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace busbw {

struct ProcessStatus {
  std::string command;  // the kernel's process name (comm), at most 15 bytes
  char state = '?';     // the kernel's letter: R running, S sleeping, T stopped, t stopped by a debugger, Z ended
  long parent_pid = 0;

  bool is_stopped() const { return state == 'T' || state == 't'; }
};

/// Returns the status of a process, or nothing if /proc does not show it. Only tests pass another `proc`.
std::optional<ProcessStatus> read_process_status(long pid, const std::filesystem::path& proc = "/proc");

/// A process in the chain of parents.
struct Ancestor {
  long pid = 0;
  std::string command;  // as in ProcessStatus
};
/// Ancestors of a process, the parent first. They tell which launcher started the process.
using Ancestors = std::vector<Ancestor>;

/// Returns the ancestors, the parent first. Ends after 64 ancestors, or before the first one that /proc does not show,
/// for example because it is outside the container. Only tests pass another `proc`.
Ancestors ancestors_of(long pid, const std::filesystem::path& proc = "/proc");
/// Returns the ancestors of this process.
Ancestors process_ancestors();

}  // namespace busbw
