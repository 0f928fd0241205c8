// Starts the search (`busbw find`) with two pipes. The search writes requests for measurements to one of them, and
// reads this job's answers from the other. Also selects the exit code: that of the search or of the job.
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
namespace {

/// Lets started programs inherit the descriptor, by clearing the close-on-exec flag that make_pipe() sets.
void make_inheritable(const Descriptor& descriptor) { fcntl(descriptor.number(), F_SETFD, 0); }

}  // namespace

SearchProcess::SearchProcess(std::string program, const std::string& command) : program_(std::move(program)) {
  // make_pipe returns the end to read and the end to write. The ends with the prefix `search_` belong to the search.
  auto [requests, search_requests] = make_pipe();
  auto [search_answers, answers] = make_pipe();
  make_inheritable(search_requests);
  make_inheritable(search_answers);
  pid_ = start_shell(fmt::format("{} --connected {},{}", command, search_answers.number(), search_requests.number()));
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
  // The search reports a lost process as a finding, with the exit code of a slow part.
  const bool is_finding =
      code == ExitCode::rank_lost && search_code == static_cast<int>(ExitCode::slower_than_demanded);
  if (job_code != 0 && !is_finding) return job_code;
  if (search_code != kCommandNotFound) return search_code;
  print_stderr(program_, "process 0 needs the busbw command on its node; install the wheel there");
  return static_cast<int>(ExitCode::environment);
}

}  // namespace busbw
