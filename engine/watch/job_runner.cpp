#include "watch/job_runner.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "measure/clock.hpp"
#include "watch/watchdog.hpp"

namespace busbw {
namespace {

constexpr double kAskingS = 8.0;           // that a diagnosis may take
constexpr double kGraceS = 2.0;            // for ranks to end by themselves once the job is aborted
constexpr long kTickNs = 100'000'000;      // between two looks; ends of ranks and signals wake earlier

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
  // Under nohup the run goes on when its terminal is closed.
  struct sigaction hangup{};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

/// Waits up to a tick for a signal; 0 without one.
int wait_for_signal() {
  const sigset_t signals = watched_signals();
  const timespec tick{0, kTickNs};
  const int signal = sigtimedwait(&signals, nullptr, &tick);
  return signal > 0 ? signal : 0;
}

/// The ranks of one process, each in a thread.
class RankThreads {
 public:
  RankThreads(Job& job, int first_rank, int count, const JobCallbacks& callbacks)
      : running_(std::make_shared<std::atomic<int>>(count)) {
    const pthread_t watcher = pthread_self();
    for (int rank = first_rank; rank < first_rank + count; ++rank) {
      try {
        threads_.emplace_back([&job, &callbacks, rank, watcher, running = running_] {
          run_guarded(job, callbacks, rank);
          running->fetch_sub(1, std::memory_order_acq_rel);
          pthread_kill(watcher, SIGCHLD);  // wakes wait_for_signal
        });
      } catch (const std::system_error& error) {
        running_->fetch_sub(first_rank + count - rank, std::memory_order_acq_rel);
        job.abort(ExitCode::environment,
                  fmt::format("the thread of rank {} could not be started: {}; use fewer ranks, or raise "
                              "the limit on threads (ulimit -u)",
                              rank, error.what()));
        return;
      }
    }
  }

  bool running() const { return running_->load(std::memory_order_acquire) > 0; }
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }
  void abandon() {
    for (std::thread& thread : threads_) thread.detach();
  }

 private:
  /// A rank's error ends the job: its reason goes to all, the other ranks only unwind.
  static void run_guarded(Job& job, const JobCallbacks& callbacks, int rank) {
    try {
      callbacks.run_rank(rank);
    } catch (...) {
      report_failure(job, rank);
    }
  }

  std::shared_ptr<std::atomic<int>> running_;
  std::vector<std::thread> threads_;
};

/// How long ago a job was aborted.
class AbortGracePeriod {
 public:
  bool over(const Job& job) {
    if (!job.aborted()) return false;
    if (!since_s_) since_s_ = monotonic_s();
    return monotonic_s() - *since_s_ > kGraceS;
  }

 private:
  std::optional<double> since_s_;
};

/// Asks what the ranks are doing when one was lost and, where all ranks can be watched, when they do not get on.
class JobMonitor {
 public:
  JobMonitor(Job& job, const JobLayout& layout, const JobCallbacks& callbacks)
      : job_(job), layout_(layout), callbacks_(callbacks), watchdog_(job, layout.limit_s, monotonic_s()) {}

  void check() {
    if (asked_) return;
    if (const auto why = job_.failure()) {
      if (why->exit == ExitCode::rank_lost) ask();
      return;
    }
    if (!job_.watches_all_ranks()) return;
    if (const auto stalled = watchdog_.check_progress(monotonic_s())) {
      ask();  // while they hang: once the job is aborted they do something else
      job_.abort(ExitCode::rank_lost, *stalled);
      stalled_ = *stalled;
    }
  }

  /// Why the job ended early, if it did, with what was found out.
  std::optional<Failure> failure() const {
    auto why = job_.failure();
    if (why && why->exit == ExitCode::rank_lost) {
      why->details = details_;
      // Another reason may have been given first; a long one is kept in part.
      why->timed_out = !stalled_.empty() && stalled_.starts_with(why->message);
    }
    return why;
  }

 private:
  void ask() {
    asked_ = true;
    if (job_.watches_all_ranks()) {
      std::string operations = last_operations(job_, layout_.collective);
      if (!operations.empty()) details_.push_back(std::move(operations));
    }
    for (std::string& sentence : callbacks_.diagnose()) details_.push_back(std::move(sentence));
  }

  Job& job_;
  const JobLayout& layout_;
  const JobCallbacks& callbacks_;
  Watchdog watchdog_;
  bool asked_ = false;
  std::string stalled_;  // empty: the time limit has not passed
  std::vector<std::string> details_;
};

/// Signals that end the whole job.
class SignalMonitor {
 public:
  explicit SignalMonitor(Job& job) : job_(job) {}

  /// Waits a tick, or until something happens.
  void watch() {
    switch (wait_for_signal()) {
      case SIGINT: interrupt(ExitCode::interrupted, "interrupted"); break;
      case SIGHUP:
      case SIGTERM: interrupt(ExitCode::terminated, "terminated"); break;
      default: break;
    }
  }

 private:
  /// The first signal ends the ranks in an orderly way, a second one at once.
  void interrupt(ExitCode exit, const char* message) {
    // Counted here: that another process was told first, and has aborted the job, makes no second signal of this one.
    if (std::exchange(has_come_, true)) _exit(static_cast<int>(exit));
    job_.abort(exit, message);
  }

  Job& job_;
  bool has_come_ = false;
};

JobResult run_in_this_process(Job& job, int first_rank, const JobLayout& layout, const JobCallbacks& callbacks) {
  RankThreads threads(job, first_rank, layout.ranks_per_process, callbacks);
  SignalMonitor supervisor(job);
  JobMonitor diagnostician(job, layout, callbacks);
  AbortGracePeriod grace;
  while (threads.running() && !grace.over(job)) {
    supervisor.watch();
    diagnostician.check();
  }
  const bool abandoned = threads.running();
  abandoned ? threads.abandon() : threads.join();
  const auto failure = diagnostician.failure();
  return {{callbacks.finish(failure), failure ? failure->message : std::string()}, abandoned};
}

/// A process of a job of several: its ranks, and rank 0's also the end of the output. Does not return.
[[noreturn]] void run_child(LocalJob& job, const JobLayout& layout, const JobCallbacks& callbacks, int process,
                            pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::rank_lost));  // it died before that took effect
  RankThreads threads(job, process * layout.ranks_per_process, layout.ranks_per_process, callbacks);
  JobMonitor diagnostician(job, layout, callbacks);
  AbortGracePeriod grace;
  while (threads.running() && !grace.over(job)) {
    wait_for_signal();
    if (process == 0) diagnostician.check();
  }
  if (!threads.running()) threads.join();
  _exit(process == 0 ? callbacks.finish(diagnostician.failure()) : 0);
}

class ChildProcesses {
 public:
  ChildProcesses(LocalJob& job, const JobLayout& layout, const JobCallbacks& callbacks) : job_(job), layout_(layout) {
    const pid_t parent = getpid();
    for (int process = 0; process < layout.processes; ++process) {
      const pid_t pid = fork();
      if (pid == 0) run_child(job, layout, callbacks, process, parent);
      if (pid < 0) {
        job.abort(ExitCode::environment, fmt::format("process {} of {} could not be started: {}; use fewer processes",
                                                 process, layout.processes, std::strerror(errno)));
        return;
      }
      pids_.push_back(pid);
    }
  }

  bool running() const { return ended_ < pids_.size(); }
  int first_exit_code() const { return first_exit_code_; }

  void reap() {
    for (std::size_t process = 0; process < pids_.size(); ++process) {
      int status = 0;
      if (pids_[process] == 0 || waitpid(pids_[process], &status, WNOHANG) != pids_[process]) continue;
      if (WIFSIGNALED(status))
        report_loss(process, fmt::format("died of signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
      else if (process == 0)
        first_exit_code_ = WEXITSTATUS(status);
      else if (WEXITSTATUS(status) != 0)
        report_loss(process, fmt::format("ended with exit code {}", WEXITSTATUS(status)));
      pids_[process] = 0;
      ++ended_;
    }
  }

  /// Those from process `first` on.
  void kill_from(std::size_t first) {
    for (std::size_t process = first; process < pids_.size(); ++process)
      if (pids_[process] != 0) kill(pids_[process], SIGKILL);
  }

  void wait_until(double until_s) {
    for (reap(); running() && monotonic_s() < until_s; reap()) wait_for_signal();
  }

 private:
  void report_loss(std::size_t process, const std::string& how) {
    const int first = static_cast<int>(process) * layout_.ranks_per_process;
    const int last = first + layout_.ranks_per_process - 1;
    const std::string ranks =
        first == last ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last);
    job_.abort(
        ExitCode::rank_lost,
        fmt::format("{} (process {}, pid {}) {} in phase {}; see the kernel's log for a reason such as lack of memory",
                    ranks, process, pids_[process], how, name(job_.progress(first).phase)));
  }

  LocalJob& job_;
  const JobLayout& layout_;
  std::vector<pid_t> pids_;  // 0: has ended
  std::size_t ended_ = 0;
  int first_exit_code_ = static_cast<int>(ExitCode::rank_lost);
};

JobResult run_in_processes(LocalJob& job, const JobLayout& layout, const JobCallbacks& callbacks) {
  ChildProcesses children(job, layout, callbacks);
  SignalMonitor supervisor(job);
  // Process 0 looks at the ranks itself and asks them; this is for when it cannot.
  Watchdog watchdog(job, layout.limit_s + kAskingS, monotonic_s());
  AbortGracePeriod grace;
  // Children have a grace of their own in which rank 0 finishes the output.
  bool killed = false;
  for (children.reap(); children.running(); children.reap()) {
    supervisor.watch();
    if (const auto stalled = watchdog.check_progress(monotonic_s())) job.abort(ExitCode::rank_lost, *stalled);
    if (grace.over(job) && !std::exchange(killed, true)) {
      children.wait_until(monotonic_s() + kGraceS);
      children.kill_from(1);
      // It may be asking what the ranks were doing.
      children.wait_until(monotonic_s() + kAskingS);
      children.kill_from(0);
    }
  }
  if (const auto failure = job.failure()) return {{static_cast<int>(failure->exit), failure->message}};
  return {{children.first_exit_code(), {}}};
}

}  // namespace

SignalMask::SignalMask() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Where it is ignored, as some launchers leave it, children vanish without a word.
  std::signal(SIGCHLD, SIG_DFL);
}

SignalMask::~SignalMask() {
  // A second Ctrl-C that comes while the outputs are ended has nothing left to end.
  const sigset_t signals = watched_signals();
  const timespec at_once{};
  while (sigtimedwait(&signals, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void throw_if_interrupted() {
  const sigset_t signals = watched_signals();
  const timespec at_once{};
  switch (sigtimedwait(&signals, nullptr, &at_once)) {
    case SIGINT: throw Error(ExitCode::interrupted, "interrupted");
    case SIGHUP:
    case SIGTERM: throw Error(ExitCode::terminated, "terminated");
    default: return;
  }
}

void report_failure(Job& job, int rank) {
  try {
    throw;
  } catch (const JobAborted&) {
  } catch (const Error& error) {
    job.abort(error.exit(), job.with_rank_name(rank, error.what()));
  } catch (const std::exception& error) {
    job.abort(ExitCode::environment, fmt::format("{} failed in phase {}: {}", job.rank_name(rank),
                                             name(job.progress(rank).phase), error.what()));
  }
}

JobResult run_job(LocalJob& job, const JobLayout& layout, const JobCallbacks& callbacks) {
  const SignalMask mask;
  return layout.processes == 1 ? run_in_this_process(job, 0, layout, callbacks)
                               : run_in_processes(job, layout, callbacks);
}

JobResult run_process_of_job(Job& job, int first_rank, const JobLayout& layout, const JobCallbacks& callbacks) {
  const SignalMask mask;
  return run_in_this_process(job, first_rank, layout, callbacks);
}

}  // namespace busbw
