#include "flows/search_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "common/shell/shell_process.hpp"
#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"

namespace busbw {

SearchProcess::SearchProcess(std::string program, const std::string& command) : program_(std::move(program)) {
  auto [requests, request_end] = make_pipe();
  auto [answer_end, answers] = make_pipe();
  for (const int inherited : {answer_end.number(), request_end.number()}) fcntl(inherited, F_SETFD, 0);
  pid_ = start_shell(fmt::format("{} --connected {},{}", command, answer_end.number(), request_end.number()));
  requests_ = std::move(requests);
  answers_ = std::move(answers);
}

SearchProcess::~SearchProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int SearchProcess::finish(int job_code) {
  const auto code = static_cast<ExitCode>(job_code);
  if (code == ExitCode::interrupted || code == ExitCode::terminated) pass_on_interrupt(pid_, code);
  requests_.close();
  answers_.close();
  const int search_code = wait_for_shell(std::exchange(pid_, -1));
  // The search reports a lost process as a finding. Its exit code is that of a slow part.
  const bool is_finding =
      code == ExitCode::rank_lost && search_code == static_cast<int>(ExitCode::slower_than_demanded);
  if (job_code != 0 && !is_finding) return job_code;
  if (search_code != kCommandNotFound) return search_code;
  print_stderr(program_, "process 0 needs the busbw command on its node; install the wheel there");
  return static_cast<int>(ExitCode::environment);
}

}  // namespace busbw
