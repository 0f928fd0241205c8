// Runs one command with limits on its time and its output, and kills it with its children afterwards.
#include "each_node/node_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "common/os/provenance.hpp"
#include "common/os/signal_mask.hpp"
#include "common/shell/shell_process.hpp"
#include "measure/clock.hpp"

namespace busbw {
namespace {

constexpr int kOutputPollMs = 20;

/// A running command, which is killed with its children at the end of its scope.
class ScopedCommand {
 public:
  ScopedCommand(const std::string& command, int stdin_fd, int stdout_fd)
      : pid_(start_shell(command, {stdin_fd, stdout_fd, /*has_own_group=*/true})) {}
  ~ScopedCommand() {
    kill(-pid_, SIGKILL);
    // A process that waits for a device does not end even now, so nothing waits for it.
    waitpid(pid_, nullptr, WNOHANG);
  }
  ScopedCommand(const ScopedCommand&) = delete;
  ScopedCommand& operator=(const ScopedCommand&) = delete;

  /// Returns the exit code of the shell, or nothing while it runs. A signal counts as 128 plus its number.
  std::optional<int> exit_code() {
    // WNOWAIT keeps the process id, so that no other process can get it before the group is killed.
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return std::nullopt;
    constexpr int kSignalBase = 128;
    return info.si_code == CLD_EXITED ? info.si_status : kSignalBase + info.si_status;
  }

 private:
  pid_t pid_;
};

/// Appends the available output. If nothing is available and `waits` is true, waits up to kOutputPollMs for output.
/// Stops above `max_bytes`. Returns false at the end of the output.
bool read_available(int descriptor, std::string& output, std::size_t max_bytes, bool waits) {
  pollfd entry{descriptor, POLLIN, 0};
  char chunk[1 << 14];
  while (output.size() <= max_bytes && poll(&entry, 1, waits ? kOutputPollMs : 0) > 0) {
    const ssize_t count = read(descriptor, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    output.append(chunk, static_cast<std::size_t>(count));
    waits = false;
  }
  return true;
}

/// Returns the problem that a command's exit code stands for. Empty for success.
std::string problem_of(int code) {
  if (code == 0) return "";
  return code == kCommandNotFound ? "the command is missing"
                                  : fmt::format("the command failed with exit code {}", code);
}

}  // namespace

NodeOutput run_node_command(const std::string& command, const CommandLimits& limits) {
  NodeOutput result{host_name(), {}, {}};
  auto [output, command_stdout] = make_pipe();
  const Descriptor no_input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ScopedCommand process(command, no_input.number(), command_stdout.number());
  command_stdout.close();
  const double end_s = monotonic_s() + limits.time_s;
  bool is_output_open = true;
  while (true) {
    throw_if_interrupted();
    // The end of the shell counts, because its children may keep the pipe open. The shell is queried before the output
    // is read, so that the last read after its end gets all of its output.
    const auto code = process.exit_code();
    if (is_output_open) {
      is_output_open = read_available(output.number(), result.output, limits.output_bytes, /*waits=*/!code);
    } else if (!code) {
      poll(nullptr, 0, kOutputPollMs);
    }
    if (result.output.size() > limits.output_bytes) {
      result.problem = fmt::format("the command printed more than {} bytes", limits.output_bytes);
      return result;
    }
    if (code) {
      result.problem = problem_of(*code);
      return result;
    }
    if (monotonic_s() >= end_s) {
      result.problem = fmt::format("the command did not end within {:g} s", limits.time_s);
      return result;
    }
  }
}

}  // namespace busbw
