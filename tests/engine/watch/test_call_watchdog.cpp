#include "watch/call_watchdog.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <limits>

#include "support_errors.hpp"
#include "watch/job_runner.hpp"

using namespace busbw;

namespace {

struct Ended {
  int code;
  std::string last_words;
};

/// What becomes of a process that waits for ever under a guard, which gets `signal` when it waits; 0: none.
Ended ended_under_guard(double limit_s, int signal) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const SignalMask mask;
    const CallWatchdog guard("counting sheep", limit_s, [&](const CallFailure& end) {
      if (write(ends[1], end.sentence.data(), end.sentence.size()) < 0) _exit(99);
    });
    if (signal != 0) kill(getpid(), signal);
    for (;;) pause();
  }
  close(ends[1]);
  Ended ended{};
  std::array<char, 512> part{};
  while (const ssize_t got = read(ends[0], part.data(), part.size())) {
    if (got < 0) break;
    ended.last_words.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  ended.code = WEXITSTATUS(status);
  return ended;
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("AnswerGuard: what does not answer in time ends the process with a sentence") {
  const Ended ended = ended_under_guard(0.2, 0);
  CHECK(ended.code == static_cast<int>(ExitCode::rank_lost));
  check_names(ended.last_words, {"no answer for 0.2 s", "-T", "counting sheep", "nvidia-smi", "--backend host"});
}

TEST_CASE("AnswerGuard: a signal that a SignalMask holds back ends it, too") {
  const Ended interrupted = ended_under_guard(kNoLimit, SIGINT);
  CHECK(interrupted.code == static_cast<int>(ExitCode::interrupted));
  CHECK(interrupted.last_words == "interrupted while counting sheep");
  CHECK(ended_under_guard(kNoLimit, SIGTERM).code == static_cast<int>(ExitCode::terminated));
}

TEST_CASE("AnswerGuard: an answer ends the guard") {
  bool has_spoken = false;
  for (int i = 0; i < 100; ++i) const CallWatchdog guard("quick", 60, [&](const CallFailure&) { has_spoken = true; });
  CHECK_FALSE(has_spoken);
}
