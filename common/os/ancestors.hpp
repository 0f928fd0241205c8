#pragma once
// Ancestors of a process: its parent, the parent's parent, and so on. They tell which launcher started the process.
#include <filesystem>
#include <string>
#include <vector>

namespace busbw {

/// A process in the chain of parents.
struct Ancestor {
  long pid = 0;
  std::string command;  // the kernel's process name (comm), at most 15 bytes
};
/// Ancestors of a process, the parent first.
using Ancestors = std::vector<Ancestor>;

/// Returns the ancestors, the parent first. Ends after 64 ancestors, or before the first one that /proc does not show,
/// for example because it is outside the container. Only tests pass another `proc`.
Ancestors ancestors_of(long pid, const std::filesystem::path& proc = "/proc");

Ancestors process_ancestors();

}  // namespace busbw
