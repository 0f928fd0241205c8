#pragma once
// Commands in the syntax of a shell, as child processes of `each-node` and `flows`.
#include <sys/types.h>

#include <string>
#include <utility>

#include "common/os/descriptor.hpp"
#include "common/support/error.hpp"

namespace busbw {

inline constexpr int kCommandNotFound = 127;  // exit code of a shell

/// Streams and group of a child process. A descriptor of -1 stands for the stream of this process.
struct ShellSettings {
  int stdin_fd = -1;
  int stdout_fd = -1;
  bool has_own_group = false;  // so that the process can be killed with its children
};

/// Starts a shell command. The command has the default handling of all signals, even of those that this process blocks
/// or ignores. The folder of this program is the first one on the command's PATH. Throws EnvironmentError if there is
/// no shell.
pid_t start_shell(const std::string& command, const ShellSettings& settings = {});

/// Sends a child process the signal of the interrupt that ends this process: SIGINT for `interrupted`, else SIGTERM.
void pass_on_interrupt(pid_t pid, ExitCode interrupt);

/// Waits for the end of a child process and passes interrupts on. Returns its exit code, or 128 plus the number of the
/// signal that ended it. Needs a SignalMask.
int wait_for_shell(pid_t pid);

/// Returns the read end and the write end of a pipe. Started programs do not inherit these descriptors. Throws
/// EnvironmentError.
std::pair<Descriptor, Descriptor> make_pipe();

}  // namespace busbw
