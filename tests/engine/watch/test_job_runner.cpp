#include "watch/job_runner.hpp"

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

constexpr double kPatient = 60;  // a limit that only guards against hangs
constexpr double kLimit = 2;     // one that is reached; processes that start side by side must all come before it

/// What the callbacks saw, in whichever process they were called.
struct Seen {
  std::array<std::atomic<int>, 16> runs;
  std::atomic<int> finishes;
  std::atomic<pid_t> finished_in;
  std::atomic<int> exit_of_failure;  // -1: finish was called without a failure
  std::atomic<int> details;          // that finish was told
  std::atomic<bool> timed_out;
  std::atomic<pid_t> asked_in;       // process that was asked what its ranks are doing
};

JobCallbacks callbacks_of(const Shared<Seen>& seen, std::function<void(int rank)> run_rank, int exit_code = 0) {
  return {[&seen, run_rank = std::move(run_rank)](int rank) {
            ++seen->runs[static_cast<std::size_t>(rank)];
            run_rank(rank);
          },
          [&seen, exit_code](const std::optional<Failure>& failure) {
            ++seen->finishes;
            seen->finished_in = getpid();
            seen->exit_of_failure = failure ? static_cast<int>(failure->exit) : -1;
            seen->details = failure ? static_cast<int>(failure->details.size()) : 0;
            seen->timed_out = failure && failure->timed_out;
            return failure ? static_cast<int>(failure->exit) : exit_code;
          },
          [&seen] {
            seen->asked_in = getpid();
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

/// How run_job ended, in words, for jobs that run in a process of their own.
std::string ending(const JobResult& result, const Shared<Seen>& seen) {
  return "exit " + std::to_string(result.outcome.exit_code) + (result.abandoned ? " abandoned" : "") + " finishes " +
         std::to_string(seen->finishes) + ": " + result.outcome.message;
}

/// Runs a job of two ranks in a process of its own, since ranks may be left behind in it.
std::function<std::string()> job_of_two(Layout layout, double limit_s,
                                        std::function<void(LocalJob&, int rank)> run_rank) {
  return [=] {
    // Never freed: ranks that are left behind still use it.
    const auto& seen = *new Shared<Seen>;
    auto& job = *new LocalJob(2);
    const auto& callbacks = *new JobCallbacks(callbacks_of(seen, [&](int rank) { run_rank(job, rank); }));
    return ending(run_job(job, {layout.processes, layout.threads, limit_s}, callbacks), seen);
  };
}

void wait_for_abort(LocalJob& job, int rank) {
  const auto team = job.team(rank);
  const double until_s = monotonic_s() + kPatient;  // no stray process, should its starter be gone
  while (!team->aborted() && monotonic_s() < until_s) usleep(1000);
  throw JobAborted();
}

/// Until the thread that watches over the ranks has taken a signal that was sent to this process.
void wait_until_taken(int signal) {
  const double until_s = monotonic_s() + kPatient;
  for (sigset_t waiting; monotonic_s() < until_s; usleep(1000))
    if (sigpending(&waiting) == 0 && sigismember(&waiting, signal) == 0) return;
}

}  // namespace

TEST_CASE("run_job: every rank runs once, then the job is finished once, in the process of rank 0") {
  for (const Layout layout : kLayouts) {
    CAPTURE(layout.processes);
    const Shared<Seen> seen;
    LocalJob job(layout.processes * layout.threads);
    const JobResult result = run_job(job, {layout.processes, layout.threads, kPatient},
                                     callbacks_of(seen, [&](int rank) { job.team(rank)->barrier(); }));
    CHECK(result.outcome.exit_code == 0);
    CHECK(result.outcome.message == "");
    CHECK_FALSE(result.abandoned);
    for (int rank = 0; rank < 16; ++rank)
      CHECK(seen->runs[static_cast<std::size_t>(rank)] == (rank < job.ranks() ? 1 : 0));
    CHECK(seen->finishes == 1);
    CHECK(seen->exit_of_failure == -1);
    CHECK((seen->finished_in == getpid()) == (layout.processes == 1));
    check_no_children_left();
  }
}

TEST_CASE("run_job: the exit code is what finish says") {
  for (const Layout layout : kLayouts) {
    const Shared<Seen> seen;
    LocalJob job(layout.processes * layout.threads);
    CHECK(run_job(job, {layout.processes, layout.threads, kPatient},
                  callbacks_of(
                      seen, [](int) {}, 5))
              .outcome.exit_code == 5);
  }
}

TEST_CASE("run_job: an error in a rank ends all of them, with its exit code and sentence") {
  for (const Layout layout : kLayouts) {
    CAPTURE(layout.processes);
    const Shared<Seen> seen;
    LocalJob job(layout.processes * layout.threads);
    const JobResult result =
        run_job(job, {layout.processes, layout.threads, kPatient}, callbacks_of(seen, [&](int rank) {
                  if (rank == job.ranks() - 1) throw EnvironmentError("the disk is full");
                  job.team(rank)->barrier();
                }));
    CHECK(result.outcome.exit_code == 3);
    CHECK(result.outcome.message == "the disk is full");
    CHECK_FALSE(result.abandoned);
    CHECK(seen->finishes == 1);
    CHECK(seen->exit_of_failure == 3);
    check_no_children_left();
  }
}

TEST_CASE("run_job: an unexpected exception names rank and phase") {
  LocalJob job(2);
  const Shared<Seen> seen;
  const JobResult result = run_job(job, {1, 2, kPatient}, callbacks_of(seen, [&](int rank) {
                                     job.team(rank)->enter(Phase::warmup);
                                     if (rank == 1) throw std::runtime_error("odd");
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.outcome.exit_code == 3);
  check_names(result.outcome.message, {"rank 1", "warmup", "odd"});
}

TEST_CASE("run_job: a process that dies is named, with its signal and phase, and takes the others along") {
  const Shared<Seen> seen;
  LocalJob job(4);
  const JobResult result = run_job(job, {2, 2, kPatient}, callbacks_of(seen, [&](int rank) {
                                     const auto team = job.team(rank);
                                     team->enter(Phase::timing);
                                     team->barrier();
                                     if (rank == 3) kill(getpid(), SIGKILL);
                                     for (;;) team->barrier();
                                   }));
  CHECK(result.outcome.exit_code == 4);
  check_names(result.outcome.message, {"ranks 2 to 3", "process 1", "signal 9", "timing"});
  CHECK(seen->finishes == 1);
  CHECK(seen->exit_of_failure == 4);
  check_no_children_left();
}

TEST_CASE("run_job: when rank 0's process dies the exit code still says so") {
  const Shared<Seen> seen;
  LocalJob job(2);
  const JobResult result = run_job(job, {2, 1, kPatient}, callbacks_of(seen, [&](int rank) {
                                     if (rank == 0) kill(getpid(), SIGKILL);
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.outcome.exit_code == 4);
  check_names(result.outcome.message, {"rank 0 ", "process 0", "signal 9"});
  CHECK(seen->finishes == 0);
  check_no_children_left();
}

TEST_CASE("run_job: a process that ends by itself before its ranks have is a lost one") {
  const Shared<Seen> seen;
  LocalJob job(2);
  const JobResult result = run_job(job, {2, 1, kPatient}, callbacks_of(seen, [&](int rank) {
                                     if (rank == 1) _exit(7);
                                     job.team(rank)->barrier();
                                   }));
  CHECK(result.outcome.exit_code == 4);
  check_names(result.outcome.message, {"rank 1 ", "process 1", "7"});
  CHECK(seen->finishes == 1);
}

TEST_CASE("run_job: works where the caller ignores the ends of its children") {
  ChildProcess child([] {
    std::signal(SIGCHLD, SIG_IGN);
    const Shared<Seen> seen;
    LocalJob job(2);
    return ending(run_job(job, {2, 1, kPatient}, callbacks_of(seen, [](int) {})), seen);
  });
  CHECK(child.said() == "exit 0 finishes 1: ");
}

TEST_CASE("run_job: an interrupt and a request to terminate end all ranks in an orderly way") {
  for (const Layout layout : {Layout{1, 2}, Layout{2, 1}}) {
    const auto job_that_signals = [&](int signal) {
      std::signal(SIGHUP, SIG_DFL);  // whoever started the tests may have it ignored
      return job_of_two(layout, kPatient, [layout, signal](LocalJob& job, int rank) {
        if (rank == 1) kill(layout.processes == 1 ? getpid() : getppid(), signal);
        wait_for_abort(job, rank);
      });
    };
    CHECK(ChildProcess(job_that_signals(SIGINT)).said() == "exit 130 finishes 1: interrupted");
    CHECK(ChildProcess(job_that_signals(SIGTERM)).said() == "exit 143 finishes 1: terminated");
    CHECK(ChildProcess(job_that_signals(SIGHUP)).said() == "exit 143 finishes 1: terminated");
  }
}

TEST_CASE("run_job: a closed terminal does not end what was started to outlive it") {
  ChildProcess child([] {
    std::signal(SIGHUP, SIG_IGN);
    const Shared<Seen> seen;
    LocalJob job(2);
    const auto rank = [&](int number) {
      if (number == 1) kill(getpid(), SIGHUP);
      job.team(number)->barrier();
    };
    return ending(run_job(job, {1, 2, kPatient}, callbacks_of(seen, rank)), seen);
  });
  CHECK(child.said() == "exit 0 finishes 1: ");
}

TEST_CASE("run_job: a second interrupt does not wait for ranks that hang") {
  ChildProcess child(job_of_two({1, 2}, kPatient, [](LocalJob& job, int rank) {
    if (rank == 1) hang();
    kill(getpid(), SIGINT);
    while (!job.aborted()) usleep(1000);
    kill(getpid(), SIGINT);
    hang();
  }));
  CHECK(child.said() == " [exit 130]");
}

TEST_CASE("run_job: the first signal that comes when another member has aborted the job is no second one") {
  // As when a launcher passes an interrupt on to one process after the other.
  ChildProcess once(job_of_two({1, 2}, kPatient, [](LocalJob& job, int rank) {
    if (rank == 1) {
      job.abort(ExitCode::terminated, "terminated elsewhere");
      kill(getpid(), SIGINT);
      wait_until_taken(SIGINT);
    }
    wait_for_abort(job, rank);
  }));
  CHECK(once.said() == "exit 143 finishes 1: terminated elsewhere");
  ChildProcess twice(job_of_two({1, 2}, kPatient, [](LocalJob& job, int rank) {
    if (rank == 1) {
      job.abort(ExitCode::environment, "the disk is full");
      kill(getpid(), SIGINT);
      kill(getpid(), SIGTERM);  // two of one kind might arrive as one
    }
    hang();
  }));
  CHECK(twice.said() == " [exit 143]");
}

TEST_CASE("run_job: ranks that hang or stop are given up after the limit, and named") {
  // Side by side, since each takes seconds.
  ChildProcess thread(
      job_of_two({1, 2}, kLimit, [](LocalJob& job, int rank) { rank == 1 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess process(
      job_of_two({2, 1}, kLimit, [](LocalJob& job, int rank) { rank == 1 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess first_process(
      job_of_two({2, 1}, kLimit, [](LocalJob& job, int rank) { rank == 0 ? hang() : job.team(rank)->barrier(); }));
  ChildProcess stopped(job_of_two({2, 1}, kLimit, [](LocalJob& job, int rank) {
    if (rank == 1) raise(SIGSTOP);
    job.team(rank)->barrier();
  }));
  check_names(thread.said(), {"exit 4 abandoned finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
  check_names(process.said(), {"exit 4 finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
  check_names(first_process.said(), {"exit 4 finishes 1: ", "for 2 s: rank 0 ", "rendezvous"});
  check_names(stopped.said(), {"exit 4 finishes 1: ", "for 2 s: rank 1 ", "rendezvous"});
}

TEST_CASE(
    "run_job: when ranks hang, or one is lost, rank 0's process asks what they are doing and tells it at the end") {
  const auto job = [](Layout layout, bool dies) {
    return [layout, dies] {
      const auto& seen = *new Shared<Seen>;
      auto& job = *new LocalJob(2);
      const auto& callbacks = *new JobCallbacks(callbacks_of(seen, [&, dies](int rank) {
        const auto team = job.team(rank);
        team->issued().next(1024);
        if (rank == 1) dies ? static_cast<void>(raise(SIGKILL)) : hang();
        team->barrier();
      }));
      run_job(job, {layout.processes, layout.threads, kLimit, "all_reduce"}, callbacks);
      return std::to_string(seen->details) + (seen->asked_in == seen->finished_in ? " in the same process" : "") +
             (seen->timed_out ? ", timed out" : "");
    };
  };
  // Side by side, since each takes seconds.
  ChildProcess thread_hangs(job({1, 2}, false));
  ChildProcess process_hangs(job({2, 1}, false));
  ChildProcess process_dies(job({2, 1}, true));
  CHECK(thread_hangs.said() == "3 in the same process, timed out");
  CHECK(process_hangs.said() == "3 in the same process, timed out");
  CHECK(process_dies.said() == "3 in the same process");
}

TEST_CASE("run_job: nothing is asked when the job ends for a reason of its own") {
  const Shared<Seen> seen;
  LocalJob job(2);
  run_job(job, {1, 2, kPatient}, callbacks_of(seen, [](int) { throw EnvironmentError("no memory"); }));
  CHECK(seen->exit_of_failure == 3);
  CHECK(seen->asked_in == 0);
  CHECK(seen->details == 0);
}

TEST_CASE("run_job: processes end with the one that started them") {
  const Shared<std::array<std::atomic<pid_t>, 2>> pids;
  ChildProcess parent(job_of_two({2, 1}, kPatient, [&](LocalJob& job, int rank) {
    (*pids)[static_cast<std::size_t>(rank)] = getpid();
    wait_for_abort(job, rank);
  }));
  while ((*pids)[0] == 0 || (*pids)[1] == 0) usleep(1000);
  kill(parent.pid(), SIGKILL);
  parent.said();
  const double until_s = monotonic_s() + kPatient;
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
    "tell_failure: an error's exit code and sentence, another exception's words and phase, and nothing of Aborted") {
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
