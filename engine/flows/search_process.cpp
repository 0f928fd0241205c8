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
#include <utility>

#include "common/os/program_file.hpp"
#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"

namespace busbw {
namespace {

constexpr int kCommandNotFound = 127;  // exit code of a shell
constexpr int kSignalled = 128;        // plus the number of the signal: exit code of a command that a signal ended
constexpr int kPollMs = 100;

/// Returns the end to read and the end to write of a pipe. Programs that are started do not inherit them.
std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw EnvironmentError(fmt::format("cannot create a pipe: {}; close files", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Starts a script with `folder` as $1, and the default handling of all signals, which this process blocks or ignores.
pid_t spawn_shell(const std::string& script, const std::string& folder) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "/bin/sh", flag = "-c", text = script, name = "busbw", first = folder;
  char* const words[]{shell.data(), flag.data(), text.data(), name.data(), first.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, shell.c_str(), nullptr, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw EnvironmentError(fmt::format("cannot start {}: {}", shell, std::strerror(error)));
  return pid;
}

}  // namespace

SearchProcess::SearchProcess(std::string program, const std::string& command) : program_(std::move(program)) {
  auto [requests, request_end] = make_pipe();
  auto [answer_end, answers] = make_pipe();
  for (const int inherited : {answer_end.number(), request_end.number()}) fcntl(inherited, F_SETFD, 0);
  const std::string folder = std::filesystem::path(program_path().value_or("/")).parent_path();
  pid_ = spawn_shell(
      fmt::format("PATH=\"$1:$PATH\"; exec {} --connected {},{}", command, answer_end.number(), request_end.number()),
      folder);
  requests_ = std::move(requests);
  answers_ = std::move(answers);
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
  if (WEXITSTATUS(status) != kCommandNotFound) return WEXITSTATUS(status);
  print_stderr(program_, "process 0 needs the busbw command on its node; install the wheel there");
  return static_cast<int>(ExitCode::environment);
}

}  // namespace busbw
