// Parses /proc/PID/stat.
#include "common/os/process_status.hpp"

#include <fstream>
#include <iterator>
#include <sstream>

namespace busbw {

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

}  // namespace busbw
