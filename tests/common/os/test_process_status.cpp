#include "common/os/process_status.hpp"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace busbw;

TEST_CASE("process status: parent, and whether the process is stopped") {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  const auto running = read_process_status(child);
  REQUIRE(running);
  CHECK(running->parent_pid == getpid());
  CHECK_FALSE(running->is_stopped());
  kill(child, SIGSTOP);
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  CHECK(read_process_status(child)->is_stopped());
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_FALSE(read_process_status(child));
}
