#include "flows/search_process.hpp"

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
#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr int kCommandNotFound = 127;  // exit code of a shell
constexpr int kSignalled = 128;        // plus the number of the signal: exit code of a command that a signal ended
constexpr int kPollMs = 100;

/// Pipe of which only the search inherits its end.
struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw EnvironmentError(fmt::format("cannot create a pipe: {}; close files", std::strerror(errno)));
    read_end = Descriptor(ends[0]);
    write_end = Descriptor(ends[1]);
  }
};

/// Starts a script with the default handling of all signals, which this process blocks or ignores.
pid_t spawn_shell(const std::string& script, const std::string& folder) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "/bin/sh", flag = "-c", text = script, name = folder;
  char* const words[]{shell.data(), flag.data(), text.data(), name.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, shell.c_str(), nullptr, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw EnvironmentError(fmt::format("cannot start {}: {}", shell, std::strerror(error)));
  return pid;
}

}  // namespace

SearchProcess::SearchProcess(const std::string& command) {
  Pipe requests, answers;
  for (const int inherited : {answers.read_end.number(), requests.write_end.number()}) fcntl(inherited, F_SETFD, 0);
  const std::string folder = std::filesystem::path(program_path().value_or("/")).parent_path();
  pid_ = spawn_shell(fmt::format("PATH=\"$0:$PATH\"; exec {} --connected {},{}", command, answers.read_end.number(),
                                 requests.write_end.number()),
                     folder);
  requests_ = std::move(requests.read_end);
  answers_ = std::move(answers.write_end);
}

SearchProcess::~SearchProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int SearchProcess::finish(int job_code) {
  const auto pass_on = [&](ExitCode code) { kill(pid_, code == ExitCode::interrupted ? SIGINT : SIGTERM); };
  const auto code = static_cast<ExitCode>(job_code);
  if (code == ExitCode::interrupted || code == ExitCode::terminated) pass_on(code);
  requests_.close();
  answers_.close();
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0)
    if (const auto interrupt = wait_for_interrupt(kPollMs)) pass_on(interrupt->exit());
  pid_ = -1;
  if (job_code != 0) return job_code;
  if (!WIFEXITED(status)) return kSignalled + WTERMSIG(status);
  if (WEXITSTATUS(status) == kCommandNotFound)
    throw EnvironmentError("process 0 needs the busbw command on its node; install the wheel there");
  return WEXITSTATUS(status);
}

}  // namespace busbw
