// Parses /proc/PID/stat, and walks up the process tree.
#include "common/os/process_status.hpp"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace busbw {
namespace {

constexpr std::size_t kMaxAncestors = 64;  // real chains are much shorter; the bound ends a loop in a faulty /proc

}  // namespace

std::optional<ProcessStatus> read_process_status(long pid, const std::filesystem::path& proc) {
  // "17 (a (strange) name) S 16 ...": pid, command, state and parent. The last parenthesis ends the command.
  std::ifstream file(proc / std::to_string(pid) / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t command_start = line.find('(');
  const std::size_t command_end = line.rfind(')');
  if (command_start == std::string::npos || command_end == std::string::npos || command_end < command_start)
    return std::nullopt;
  ProcessStatus status{.command = line.substr(command_start + 1, command_end - command_start - 1)};
  std::istringstream after_command(line.substr(command_end + 1));
  if (!(after_command >> status.state >> status.parent_pid)) return std::nullopt;
  return status;
}

Ancestors ancestors_of(long pid, const std::filesystem::path& proc) {
  Ancestors ancestors;
  auto status = read_process_status(pid, proc);
  while (status && status->parent_pid > 0 && ancestors.size() < kMaxAncestors) {
    const long parent_pid = status->parent_pid;
    status = read_process_status(parent_pid, proc);
    if (status) ancestors.push_back({parent_pid, status->command});
  }
  return ancestors;
}

Ancestors process_ancestors() { return ancestors_of(getpid()); }

}  // namespace busbw
