#pragma once
// Ancestors of a process: its parent, the parent's parent, and so on. They tell which launcher started the process.
#include <filesystem>
#include <string>
#include <vector>

namespace busbw {

struct Ancestor {
  long pid = 0;
  std::string command;  // file name of the program, cut to 15 bytes by the kernel
};
using Ancestors = std::vector<Ancestor>;

/// Returns the ancestors, the parent first. Ends at the first process that /proc does not show, for example at the edge
/// of a container. Only tests pass another `proc`.
Ancestors ancestors_of(long pid, const std::filesystem::path& proc = "/proc");

/// Returns the ancestors of this process.
Ancestors process_ancestors();

}  // namespace busbw
