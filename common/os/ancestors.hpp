#pragma once
// Which processes started this one: its parent, that one's parent, and so on.
#include <filesystem>
#include <string>
#include <vector>

namespace busbw {

struct Ancestor {
  long pid = 0;
  std::string command;  // as the kernel keeps it: the program's file name, at most 15 bytes
};
using Ancestors = std::vector<Ancestor>;

/// The parent first. Ends where /proc does not tell, such as at the edge of a container. `proc` differs in tests only.
Ancestors ancestors_of(long pid, const std::filesystem::path& proc = "/proc");

/// The ancestors of this process.
Ancestors process_ancestors();

}  // namespace busbw
