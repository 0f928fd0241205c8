// Starts a command in /bin/sh with posix_spawn, and waits for it. This program's directory comes first in its PATH.
#include "common/shell/shell_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "common/os/program_file.hpp"
#include "common/os/signal_mask.hpp"

namespace busbw {
namespace {

constexpr int kSignalled = 128;  // plus the number of the signal: exit code of a command that a signal ended
constexpr int kPollMs = 100;

}  // namespace

pid_t start_shell(const std::string& command, const ShellSettings& settings) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The command starts with no blocked signal, and with the default action for signals that this program ignores.
  sigset_t blocked_signals;
  sigemptyset(&blocked_signals);
  posix_spawnattr_setsigmask(&attributes, &blocked_signals);
  sigset_t default_signals;
  sigemptyset(&default_signals);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&default_signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &default_signals);
  posix_spawnattr_setpgroup(&attributes, 0);  // a new group, if the flag requests that
  const int group_flag = settings.has_own_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group_flag));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (settings.stdin_fd >= 0) posix_spawn_file_actions_adddup2(&actions, settings.stdin_fd, STDIN_FILENO);
  if (settings.stdout_fd >= 0) posix_spawn_file_actions_adddup2(&actions, settings.stdout_fd, STDOUT_FILENO);
  // sh -c SCRIPT NAME FOLDER: the script sees NAME as $0 and FOLDER as $1.
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::string script = "PATH=\"$1:$PATH\"; exec " + command;
  std::string name = "busbw";
  std::string folder = std::filesystem::path(program_path().value_or("/")).parent_path();
  char* const arguments[]{shell.data(), flag.data(), script.data(), name.data(), folder.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, shell.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw EnvironmentError(fmt::format("cannot start {}: {}", shell, std::strerror(error)));
  return pid;
}

void pass_on_interrupt(pid_t pid, ExitCode interrupt) {
  kill(pid, interrupt == ExitCode::interrupted ? SIGINT : SIGTERM);
}

int wait_for_shell(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0)
    if (const auto interrupt = wait_for_interrupt(kPollMs)) pass_on_interrupt(pid, interrupt->exit());
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw EnvironmentError(fmt::format("cannot create a pipe: {}; close files", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace busbw
