#include "watch/job_runner.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <stdexcept>

#include "measure/clock.hpp"
#include "support_errors.hpp"
#include "support_job.hpp"

using namespace busbw;

namespace {

constexpr double kJobLimitS = 60;  // never reached unless a test hangs
constexpr double kShortLimitS = 2;    // reached by tests; concurrently started processes must be ready before it

/// Calls of the callbacks, in shared memory so that all processes can write it.
struct CallbackLog {
  std::array<std::atomic<int>, 16> runs;
  std::atomic<int> finishes;
  std::atomic<pid_t> finished_in;
  std::atomic<int> exit_of_failure;  // -1: finish was called without a failure
  std::atomic<int> details;          // details passed to finish
  std::atomic<bool> timed_out;
  std::atomic<pid_t> diagnosed_in;  // process that called diagnose
};

JobCallbacks callbacks_of(const Shared<CallbackLog>& log, std::function<void(int rank)> run_rank, int exit_code = 0) {
  return {[&log, run_rank = std::move(run_rank)](int rank) {
            ++log->runs[static_cast<std::size_t>(rank)];
            run_rank(rank);
          },
          [&log, exit_code](const std::optional<Failure>& failure) {
            ++log->finishes;
            log->finished_in = getpid();
            log->exit_of_failure = failure ? static_cast<int>(failure->exit) : -1;
            log->details = failure ? static_cast<int>(failure->details.size()) : 0;
            log->timed_out = failure && failure->timed_out;
            return failure ? static_cast<int>(failure->exit) : exit_code;
          },
          [&log] {
            log->diagnosed_in = getpid();
            return std::vector<std::string>{"it sleeps", "and dreams"};
          }};
}

[[noreturn]] void hang() {
  for (;;) pause();
}

void check_no_children_left() {
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

struct Layout {
  int processes;
  int threads;
};
constexpr std::array kLayouts{Layout{1, 1}, Layout{1, 4}, Layout{4, 1}, Layout{2, 3}};

/// Describes the result of a job that ran in a child process.
std::string result_text(const JobResult& result, const Shared<CallbackLog>& log) {
  return "exit " + std::to_string(result.exit_code) + (result.abandoned ? " abandoned" : "") + " finishes " +
         std::to_string(log->finishes) + ": " + result.message;
}

/// Runs a job of two ranks for a child process, because ranks may be abandoned in it.
std::function<std::string()> job_of_two(Layout layout, double limit_s,
                                        std::function<void(LocalJob&, int rank)> run_rank) {
  return [=] {
    // Never freed: abandoned ranks still use it.
    const auto& log = *new Shared<CallbackLog>;
    auto& job = *new LocalJob(2);
    const auto& callbacks = *new JobCallbacks(callbacks_of(log, [&](int rank) { run_rank(job, rank); }));
    return result_text(run_job(job, {layout.processes, layout.threads, limit_s}, callbacks), log);
  };
}

void wait_for_abort(LocalJob& job, int rank) {
  const auto team = job.team(rank);
  const double until_s = monotonic_s() + kJobLimitS;  // ends even if the parent process is lost
  while (!team->aborted() && monotonic_s() < until_s) usleep(1000);
  throw JobAborted();
}

/// Waits until the monitoring thread has received a signal sent to this process.
void wait_until_received(int signal) {
  const double until_s = monotonic_s() + kJobLimitS;
  for (sigset_t waiting; monotonic_s() < until_s; usleep(1000))
    if (sigpending(&waiting) == 0 && sigismember(&waiting, signal) == 0) return;
}

}  // namespace

TEST_CASE("run_job: runs every rank once, then calls finish once, in the process of rank 0") {
  for (const Layout layout : kLayouts) {
    CAPTURE(layout.processes);
    const Shared<CallbackLog> log;
    LocalJob job(layout.processes * layout.threads);
    const JobResult result = run_job(job, {layout.processes, layout.threads, kJobLimitS},
                                     callbacks_of(log, [&](int rank) { job.team(rank)->barrier(); }));
    CHECK(result.exit_code == 0);
    CHECK(result.message == "");
    CHECK_FALSE(result.abandoned);
    for (int rank = 0; rank < 16; ++rank)
      CHECK(log->runs[static_cast<std::size_t>(rank)] == (rank < job.ranks() ? 1 : 0));
    CHECK(log->finishes == 1);
    CHECK(log->exit_of_failure == -1);
    CHECK((log->finished_in == getpid()) == (layout.processes == 1));
    check_no_children_left();
  }
}

TEST_CASE("run_job: the exit code is the result of finish") {
  for (const Layout layout : kLayouts) {
    const Shared<CallbackLog> log;
    LocalJob job(layout.processes * layout.threads);
    CHECK(
        run_job(job, {layout.processes, layout.threads, kJobLimitS}, callbacks_of(log, [](int) {}, 5)).exit_code == 5);
  }
}

TEST_CASE("run_job: an error in a rank ends all ranks, with its exit code and message") {
  for (const Layout layout : kLayouts) {
    CAPTURE(layout.processes);
    const Shared<CallbackLog> log;
    LocalJob job(layout.processes * layout.threads);
    const JobResult result =
        run_job(job, {layout.processes, layout.threads, kJobLimitS}, callbacks_of(log, [&](int rank) {
                  if (rank == job.ranks() - 1) throw EnvironmentError("the disk is full");
                  job.team(rank)->barrier();
                }));
    CHECK(result.exit_code == 3);
    CHECK(result.message == "the disk is full");
    CHECK_FALSE(result.abandoned);
    CHECK(log->finishes == 1);
    CHECK(log->exit_of_failure == 3);
    check_no_children_left();
  }
}

TEST_CASE("run_job: an unexpected exception names rank and phase") {
  LocalJob job(2);
  const Shared<CallbackLog> log;
  const JobResult result = run_job(job, {1, 2, kJobLimitS}, callbacks_of(log, [&](int rank) {
                                     job.team(rank)->enter(Phase::warmup);
                                     if (rank == 1) throw std::runtime_error("odd");
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.exit_code == 3);
  check_names(result.message, {"rank 1", "warmup", "odd"});
}

TEST_CASE("run_job: a lost process is named with its signal and phase, and ends the job") {
  const Shared<CallbackLog> log;
  LocalJob job(4);
  const JobResult result = run_job(job, {2, 2, kJobLimitS}, callbacks_of(log, [&](int rank) {
                                     const auto team = job.team(rank);
                                     team->enter(Phase::timing);
                                     team->barrier();
                                     if (rank == 3) kill(getpid(), SIGKILL);
                                     for (;;) team->barrier();
                                   }));
  CHECK(result.exit_code == 4);
  check_names(result.message, {"ranks 2 to 3", "process 1", "signal 9", "timing"});
  CHECK(log->finishes == 1);
  CHECK(log->exit_of_failure == 4);
  check_no_children_left();
}

TEST_CASE("run_job: the exit code is 4 if the process of rank 0 is lost") {
  const Shared<CallbackLog> log;
  LocalJob job(2);
  const JobResult result = run_job(job, {2, 1, kJobLimitS}, callbacks_of(log, [&](int rank) {
                                     if (rank == 0) kill(getpid(), SIGKILL);
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.exit_code == 4);
  check_names(result.message, {"rank 0 ", "process 0", "signal 9"});
  CHECK(log->finishes == 0);
  check_no_children_left();
}

TEST_CASE("run_job: a process that ends before its ranks is lost") {
  const Shared<CallbackLog> log;
  LocalJob job(2);
  const JobResult result = run_job(job, {2, 1, kJobLimitS}, callbacks_of(log, [&](int rank) {
                                     if (rank == 1) _exit(7);
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.exit_code == 4);
  check_names(result.message, {"rank 1 ", "process 1", "7"});
  CHECK(log->finishes == 1);
}

TEST_CASE("run_job: works if the caller ignores SIGCHLD") {
  ChildProcess child([] {
    std::signal(SIGCHLD, SIG_IGN);
    const Shared<CallbackLog> log;
    LocalJob job(2);
    return result_text(run_job(job, {2, 1, kJobLimitS}, callbacks_of(log, [](int) {})), log);
  });
  CHECK(child.said() == "exit 0 finishes 1: ");
}

TEST_CASE("run_job: SIGINT, SIGTERM and SIGHUP end all ranks and call finish") {
  for (const Layout layout : {Layout{1, 2}, Layout{2, 1}}) {
    const auto job_that_signals = [&](int signal) {
      std::signal(SIGHUP, SIG_DFL);  // the test runner may ignore it
      return job_of_two(layout, kJobLimitS, [layout, signal](LocalJob& job, int rank) {
        if (rank == 1) kill(layout.processes == 1 ? getpid() : getppid(), signal);
        wait_for_abort(job, rank);
      });
    };
    CHECK(ChildProcess(job_that_signals(SIGINT)).said() == "exit 130 finishes 1: interrupted");
    CHECK(ChildProcess(job_that_signals(SIGTERM)).said() == "exit 143 finishes 1: terminated");
    CHECK(ChildProcess(job_that_signals(SIGHUP)).said() == "exit 143 finishes 1: terminated");
  }
}

TEST_CASE("run_job: SIGHUP has no effect if it was ignored at the start") {
  ChildProcess child([] {
    std::signal(SIGHUP, SIG_IGN);
    const Shared<CallbackLog> log;
    LocalJob job(2);
    const auto rank = [&](int number) {
      if (number == 1) kill(getpid(), SIGHUP);
      job.team(number)->barrier();
    };
    return result_text(run_job(job, {1, 2, kJobLimitS}, callbacks_of(log, rank)), log);
  });
  CHECK(child.said() == "exit 0 finishes 1: ");
}

TEST_CASE("run_job: a second interrupt does not wait for ranks that hang") {
  ChildProcess child(job_of_two({1, 2}, kJobLimitS, [](LocalJob& job, int rank) {
    if (rank == 1) hang();
    kill(getpid(), SIGINT);
    while (!job.aborted()) usleep(1000);
    kill(getpid(), SIGINT);
    hang();
  }));
  CHECK(child.said() == " [exit 130]");
}

TEST_CASE("run_job: a second interrupt does not wait for a process 0 that hangs at the end") {
  ChildProcess child([] {
    const Shared<CallbackLog> log;
    LocalJob job(2);
    JobCallbacks callbacks = callbacks_of(log, [&](int rank) {
      if (rank == 1) kill(getppid(), SIGINT);
      wait_for_abort(job, rank);
    });
    callbacks.finish = [](const std::optional<Failure>&) -> int {
      sleep(3);  // then the grace period has passed, and the parent waits for process 0
      kill(getppid(), SIGINT);
      hang();
    };
    return result_text(run_job(job, {2, 1, kJobLimitS}, callbacks), log);
  });
  CHECK(child.said() == " [exit 130]");
}

TEST_CASE("run_job: a first signal after an abort by another process does not count as the second") {
  // A launcher may forward an interrupt to one process after the other.
  ChildProcess first_signal(job_of_two({1, 2}, kJobLimitS, [](LocalJob& job, int rank) {
    if (rank == 1) {
      job.abort(ExitCode::terminated, "terminated elsewhere");
      kill(getpid(), SIGINT);
      wait_until_received(SIGINT);
    }
    wait_for_abort(job, rank);
  }));
  CHECK(first_signal.said() == "exit 143 finishes 1: terminated elsewhere");
  ChildProcess two_signals(job_of_two({1, 2}, kJobLimitS, [](LocalJob& job, int rank) {
    if (rank == 1) {
      job.abort(ExitCode::environment, "the disk is full");
      kill(getpid(), SIGINT);
      kill(getpid(), SIGTERM);  // two equal pending signals would be merged
    }
    hang();
  }));
  CHECK(two_signals.said() == " [exit 143]");
}

TEST_CASE("run_job: ranks that hang or are stopped are named after the limit") {
  // Concurrently, because each takes seconds.
  ChildProcess thread(job_of_two({1, 2}, kShortLimitS,
                                 [](LocalJob& job, int rank) { rank == 1 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess process(job_of_two({2, 1}, kShortLimitS,
                                  [](LocalJob& job, int rank) { rank == 1 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess first_process(job_of_two(
      {2, 1}, kShortLimitS, [](LocalJob& job, int rank) { rank == 0 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess stopped(job_of_two({2, 1}, kShortLimitS, [](LocalJob& job, int rank) {
    if (rank == 1) raise(SIGSTOP);
    job.team(rank)->barrier();
  }));
  check_names(thread.said(), {"exit 4 abandoned finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
  check_names(process.said(), {"exit 4 finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
  check_names(first_process.said(), {"exit 4 finishes 1: ", "for 2 s: rank 0 ", "rendezvous"});
  check_names(stopped.said(), {"exit 4 finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
}

TEST_CASE("run_job: if ranks hang or one is lost, the process of rank 0 diagnoses them and reports it at the end") {
  const auto job = [](Layout layout, bool dies) {
    return [layout, dies] {
      const auto& log = *new Shared<CallbackLog>;
      auto& job = *new LocalJob(2);
      const auto& callbacks = *new JobCallbacks(callbacks_of(log, [&, dies](int rank) {
        const auto team = job.team(rank);
        team->issued().next(1024);
        if (rank == 1) dies ? static_cast<void>(raise(SIGKILL)) : hang();
        team->barrier();
      }));
      run_job(job, {layout.processes, layout.threads, kShortLimitS, "all_reduce"}, callbacks);
      return std::to_string(log->details) + (log->diagnosed_in == log->finished_in ? " in the same process" : "") +
             (log->timed_out ? ", timed out" : "");
    };
  };
  // Concurrently, because each takes seconds.
  ChildProcess thread_hangs(job({1, 2}, false));
  ChildProcess process_hangs(job({2, 1}, false));
  ChildProcess process_dies(job({2, 1}, true));
  CHECK(thread_hangs.said() == "3 in the same process, timed out");
  CHECK(process_hangs.said() == "3 in the same process, timed out");
  CHECK(process_dies.said() == "3 in the same process");
}

TEST_CASE("run_job: no diagnosis if the job ends with an error") {
  const Shared<CallbackLog> log;
  LocalJob job(2);
  run_job(job, {1, 2, kJobLimitS}, callbacks_of(log, [](int) { throw EnvironmentError("no memory"); }));
  CHECK(log->exit_of_failure == 3);
  CHECK(log->diagnosed_in == 0);
  CHECK(log->details == 0);
}

TEST_CASE("run_job: processes end with their parent") {
  const Shared<std::array<std::atomic<pid_t>, 2>> pids;
  ChildProcess parent(job_of_two({2, 1}, kJobLimitS, [&](LocalJob& job, int rank) {
    (*pids)[static_cast<std::size_t>(rank)] = getpid();
    wait_for_abort(job, rank);
  }));
  while ((*pids)[0] == 0 || (*pids)[1] == 0) usleep(1000);
  kill(parent.pid(), SIGKILL);
  parent.said();
  const double until_s = monotonic_s() + kJobLimitS;
  const auto alive = [](pid_t pid) {
    std::string state = "gone";
    if (FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r")) {
      std::array<char, 64> name{};
      char letter = 'Z';
      if (std::fscanf(file, "%*d (%63[^)]) %c", name.data(), &letter) == 2 && letter != 'Z' && letter != 'X')
        state = "alive";
      std::fclose(file);
    }
    return state == "alive";
  };
  while ((alive((*pids)[0]) || alive((*pids)[1])) && monotonic_s() < until_s) usleep(1000);
  CHECK_FALSE(alive((*pids)[0]));
  CHECK_FALSE(alive((*pids)[1]));
}

TEST_CASE(
    "report_failure: an error's exit code and message, another exception's text with the phase, nothing for "
    "JobAborted") {
  const auto failure_of = [](const auto& error) {
    LocalJob job(2);
    try {
      throw error;
    } catch (...) {
      report_failure(job, 1);
    }
    return job.failure();
  };
  const auto known = failure_of(UsageError("too many"));
  REQUIRE(known);
  CHECK(known->exit == ExitCode::usage);
  CHECK(known->message == "too many");
  const auto unknown = failure_of(std::runtime_error("odd"));
  REQUIRE(unknown);
  CHECK(unknown->exit == ExitCode::environment);
  CHECK(unknown->message.find("rank 1 failed in phase") == 0);
  CHECK(!failure_of(JobAborted()));
}

#ifndef __SANITIZE_THREAD__  // its threads count as processes
TEST_CASE("run_job: the processes that started end if a later one cannot start") {
  if (geteuid() != 0) return;  // the limit needs a user without other processes
  ChildProcess parent([] {
    rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = 4;
    constexpr uid_t kUnusedUser = 3'141'592;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0 || setresuid(kUnusedUser, kUnusedUser, kUnusedUser) != 0)
      return std::string("not limited");
    // The processes that start may start threads.
    pthread_atfork(nullptr, nullptr, [] {
      rlimit limit;
      getrlimit(RLIMIT_NPROC, &limit);
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NPROC, &limit);
    });
    const auto& log = *new Shared<CallbackLog>;
    auto& job = *new LocalJob(8);
    const auto& callbacks = *new JobCallbacks(callbacks_of(log, [&](int rank) { wait_for_abort(job, rank); }));
    return result_text(run_job(job, {8, 1, kJobLimitS}, callbacks), log);
  });
  const std::string said = parent.said();
  CAPTURE(said);
  CHECK(said.starts_with("exit 3 finishes 1: cannot start process "));
  CHECK(said.ends_with("use fewer processes"));
}
#endif
