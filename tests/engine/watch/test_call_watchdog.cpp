#include "watch/call_watchdog.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <limits>

#include "common/os/signal_mask.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

struct ProcessEnd {
  int code;
  std::string message;
};

/// Runs a child process that hangs under a watchdog, and sends it `signal` unless 0. Returns its exit code and message.
ProcessEnd run_until_ended(double limit_s, int signal) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const SignalMask mask;
    const CallWatchdog watchdog(limit_s, [&](const Failure& failure) {
      if (write(ends[1], failure.message.data(), failure.message.size()) < 0) _exit(99);
    });
    watchdog("counting sheep", [&] {
      if (signal != 0) kill(getpid(), signal);
      for (;;) pause();
    });
  }
  close(ends[1]);
  ProcessEnd end{};
  std::array<char, 512> part{};
  while (const ssize_t got = read(ends[0], part.data(), part.size())) {
    if (got < 0) break;
    end.message.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  end.code = WEXITSTATUS(status);
  return end;
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("CallWatchdog: a call beyond the limit ends the process with a message") {
  const ProcessEnd end = run_until_ended(0.2, 0);
  CHECK(end.code == static_cast<int>(ExitCode::rank_lost));
  check_names(end.message, {"no answer for 0.2 s", "-T", "counting sheep", "nvidia-smi", "--backend host"});
}

TEST_CASE("CallWatchdog: a signal blocked by a SignalMask ends the process") {
  const ProcessEnd interrupted = run_until_ended(kNoLimit, SIGINT);
  CHECK(interrupted.code == static_cast<int>(ExitCode::interrupted));
  CHECK(interrupted.message == "interrupted while counting sheep");
  CHECK(run_until_ended(kNoLimit, SIGTERM).code == static_cast<int>(ExitCode::terminated));
}

TEST_CASE("CallWatchdog: a call that returns in time has no effect") {
  bool was_called = false;
  const CallWatchdog watchdog(60, [&](const Failure&) { was_called = true; });
  for (int i = 0; i < 100; ++i) CHECK(watchdog("quick", [&] { return i; }) == i);
  CHECK_FALSE(was_called);
}
