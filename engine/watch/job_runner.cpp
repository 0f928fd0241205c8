// The calling thread watches the job: every tick, it handles signals, checks progress and reaps ended children. Ranks
// run in other threads or processes. After an abort, ranks have a grace period to end by themselves. Then threads are
// abandoned (the process ends without them), and children are killed.
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

#include "common/os/signal_mask.hpp"
#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"
#include "measure/clock.hpp"
#include "watch/watchdog.hpp"

namespace busbw {
namespace {

constexpr double kDiagnosisLimitS = 8.0;  // for process 0 to diagnose the ranks
constexpr double kGraceS = 2.0;           // for ranks to end by themselves after an abort

/// Threads of the ranks of one process.
class RankThreads {
 public:
  RankThreads(Job& job, int first_rank, int count, const JobCallbacks& callbacks)
      : running_count_(std::make_shared<std::atomic<int>>(count)) {
    const pthread_t watching_thread = pthread_self();
    for (int rank = first_rank; rank < first_rank + count; ++rank) {
      try {
        threads_.emplace_back([&job, &callbacks, rank, watching_thread, running_count = running_count_] {
          run_guarded(job, callbacks, rank);
          running_count->fetch_sub(1, std::memory_order_acq_rel);
          pthread_kill(watching_thread, SIGCHLD);  // wakes wait_for_interrupt
        });
      } catch (const std::system_error& error) {
        // This rank and all later ones have no thread.
        running_count_->fetch_sub(first_rank + count - rank, std::memory_order_acq_rel);
        job.abort(ExitCode::environment,
                  fmt::format("cannot start the thread of rank {}: {}; use fewer ranks, or raise "
                              "the limit on threads (ulimit -u)",
                              rank, error.what()));
        return;
      }
    }
  }

  bool is_running() const { return running_count_->load(std::memory_order_acquire) > 0; }
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }
  /// Stops waiting for threads that do not end. These threads still use the process's data, so the process must end by
  /// _exit.
  void abandon() {
    for (std::thread& thread : threads_) thread.detach();
  }

 private:
  /// Runs a rank. An exception aborts the job, and the other ranks then unwind with JobAborted.
  static void run_guarded(Job& job, const JobCallbacks& callbacks, int rank) {
    try {
      callbacks.run_rank(rank);
    } catch (...) {
      report_failure(job, rank);
    }
  }

  /// Ranks that have not ended. Shared, because abandoned threads outlive this object.
  std::shared_ptr<std::atomic<int>> running_count_;
  std::vector<std::thread> threads_;
};

/// Time limit for ranks to end after the job was aborted.
class AbortGracePeriod {
 public:
  /// Call repeatedly: the first call after the abort starts the period.
  bool is_over(const Job& job) {
    if (!job.aborted()) return false;
    if (!start_s_) start_s_ = monotonic_s();
    return monotonic_s() - *start_s_ > kGraceS;
  }

 private:
  std::optional<double> start_s_;
};

/// Diagnoses the ranks once, after a rank was lost or the job stalled. Aborts a stalled job if it cannot continue
/// without the ranks that hang. Detects stalls only if this process sees all ranks.
class JobMonitor {
 public:
  JobMonitor(Job& job, const JobSettings& settings, const JobCallbacks& callbacks)
      : job_(job), settings_(settings), callbacks_(callbacks), watchdog_(job, settings.limit_s, monotonic_s()) {}

  void check() {
    if (has_diagnosed_) return;
    if (const auto failure = job_.failure()) {
      if (failure->exit == ExitCode::rank_lost) diagnose();
      return;
    }
    if (!job_.watches_all_ranks()) return;
    if (const auto stall = watchdog_.check_progress(monotonic_s())) {
      const bool continues_without = job_.lose_ranks(stall->ranks, stall->message);
      if (continues_without) {
        watchdog_.restart(monotonic_s());
        return;
      }
      diagnose();  // before the abort, while the ranks still hang
      job_.abort(ExitCode::rank_lost, stall->message);
      stall_message_ = stall->message;
    }
  }

  /// Returns the failure with the diagnosis, or nothing if the job has not failed.
  std::optional<Failure> failure() {
    auto failure = job_.failure();
    if (failure && failure->exit == ExitCode::rank_lost) {
      if (!has_diagnosed_) diagnose();  // the ranks may end before check() sees that a rank was lost
      failure->details = details_;
      // True if the stall is the job's failure: the job keeps only its first failure. It may have cut a long message,
      // so only the beginning is compared.
      failure->timed_out = !stall_message_.empty() && stall_message_.starts_with(failure->message);
    }
    return failure;
  }

 private:
  void diagnose() {
    has_diagnosed_ = true;
    if (job_.watches_all_ranks()) {
      std::string operations = last_operations_text(job_, settings_.collective);
      if (!operations.empty()) details_.push_back(std::move(operations));
    }
    for (std::string& detail : callbacks_.diagnose()) details_.push_back(std::move(detail));
  }

  Job& job_;
  const JobSettings& settings_;
  const JobCallbacks& callbacks_;
  Watchdog watchdog_;
  bool has_diagnosed_ = false;
  std::string stall_message_;  // empty: no stall
  std::vector<std::string> details_;
};

/// Aborts the job on the first signal, and ends the process at once on the second.
class SignalMonitor {
 public:
  explicit SignalMonitor(Job& job) : job_(job) {}

  /// Waits for a signal, at most one tick.
  void wait() {
    const auto interrupt = wait_for_interrupt(kTickMs);
    if (!interrupt) return;
    // Counts signals to this process only. An abort by another process is not a first signal.
    if (has_received_signal_) _exit(static_cast<int>(interrupt->exit()));
    has_received_signal_ = true;
    job_.abort(interrupt->exit(), interrupt->what());
  }

 private:
  Job& job_;
  bool has_received_signal_ = false;
};

/// Runs this process's ranks in threads, and watches them from the calling thread.
JobResult run_in_this_process(Job& job, int first_rank, const JobSettings& settings, const JobCallbacks& callbacks) {
  RankThreads threads(job, first_rank, settings.ranks_per_process, callbacks);
  SignalMonitor signal_monitor(job);
  JobMonitor job_monitor(job, settings, callbacks);
  AbortGracePeriod grace;
  while (threads.is_running() && !grace.is_over(job)) {
    signal_monitor.wait();
    job_monitor.check();
  }
  const bool abandoned = threads.is_running();
  if (abandoned) {
    threads.abandon();
  } else {
    threads.join();
  }
  const auto failure = job_monitor.failure();
  return {callbacks.finish(failure), failure ? failure->message : std::string(), abandoned};
}

/// Runs the ranks of one forked process, and finishes the output in the process of rank 0. Does not return.
[[noreturn]] void run_child(LocalJob& job, const JobSettings& settings, const JobCallbacks& callbacks, int process,
                            pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::rank_lost));  // the parent ended before prctl
  RankThreads threads(job, process * settings.ranks_per_process, settings.ranks_per_process, callbacks);
  JobMonitor job_monitor(job, settings, callbacks);
  AbortGracePeriod grace;
  while (threads.is_running() && !grace.is_over(job)) {
    // After a second signal, the parent ends, and the kernel kills this process (PR_SET_PDEATHSIG).
    if (const auto interrupt = wait_for_interrupt(kTickMs)) job.abort(interrupt->exit(), interrupt->what());
    if (process == 0) job_monitor.check();
  }
  if (!threads.is_running()) threads.join();
  _exit(process == 0 ? callbacks.finish(job_monitor.failure()) : 0);
}

/// Forked processes of the job, each with the threads of its ranks. The constructor forks them.
class ChildProcesses {
 public:
  ChildProcesses(LocalJob& job, const JobSettings& settings, const JobCallbacks& callbacks)
      : job_(job), settings_(settings), is_stopped_(static_cast<std::size_t>(settings.processes)) {
    const pid_t parent = getpid();
    for (int process = 0; process < settings.processes; ++process) {
      const pid_t pid = fork();
      if (pid == 0) run_child(job, settings, callbacks, process, parent);
      if (pid < 0) {
        job.abort(ExitCode::environment, fmt::format("cannot start process {} of {}: {}; use fewer processes", process,
                                                     settings.processes, std::strerror(errno)));
        return;
      }
      pids_.push_back(pid);
    }
  }

  bool is_running() const { return ended_count_ < pids_.size(); }
  /// Exit code of process 0, which has finished the output. rank_lost if process 0 died.
  int process0_exit_code() const { return process0_exit_code_; }

  /// True while process 0 is stopped, as by SIGSTOP.
  bool is_process0_stopped() const { return is_stopped_.front(); }

  /// Collects the exit statuses of ended processes, and aborts the job if a process was lost. Also updates which
  /// processes are stopped.
  void reap() {
    for (std::size_t process = 0; process < pids_.size(); ++process) {
      const pid_t pid = pids_[process];
      if (pid == 0) continue;
      int status = 0;
      const bool has_changed = waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid;
      if (!has_changed) continue;
      is_stopped_[process] = WIFSTOPPED(status);
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) continue;
      if (WIFSIGNALED(status))
        report_loss(process, fmt::format("died of signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
      else if (process == 0)
        process0_exit_code_ = WEXITSTATUS(status);
      else if (WEXITSTATUS(status) != 0)
        report_loss(process, fmt::format("ended with exit code {}", WEXITSTATUS(status)));
      pids_[process] = 0;
      ++ended_count_;
    }
  }

  /// Sends a signal to the running processes from number `first`.
  void send_from(std::size_t first, int signal) {
    for (std::size_t process = first; process < pids_.size(); ++process)
      if (pids_[process] != 0) kill(pids_[process], signal);
  }

  /// Waits until all processes have ended, but not beyond `deadline_s` on the clock of monotonic_s.
  void wait_until(double deadline_s, SignalMonitor& signal_monitor) {
    for (reap(); is_running() && monotonic_s() < deadline_s; reap()) signal_monitor.wait();
  }

 private:
  /// `ending` completes "rank 3 (process 1, pid 17) ...".
  void report_loss(std::size_t process, const std::string& ending) {
    const int number = static_cast<int>(process);
    const int first_rank = number * settings_.ranks_per_process;
    job_.abort(
        ExitCode::rank_lost,
        fmt::format("{} (process {}, pid {}) {} in phase {}; check the kernel log for a cause such as lack of memory",
                    process_ranks_text(number, settings_.ranks_per_process), number, pids_[process], ending,
                    name(job_.progress(first_rank).phase)));
  }

  LocalJob& job_;
  const JobSettings& settings_;
  std::vector<pid_t> pids_;  // 0: has ended
  std::vector<bool> is_stopped_;
  std::size_t ended_count_ = 0;
  int process0_exit_code_ = static_cast<int>(ExitCode::rank_lost);
};

/// Kills the children that do not end after an abort. Process 0 is killed last, because it may diagnose the ranks and
/// finish the output after its own grace period.
void kill_children(ChildProcesses& children, SignalMonitor& signal_monitor) {
  // Each child has a grace period of its own, which begins when it sees the abort.
  children.wait_until(monotonic_s() + kGraceS, signal_monitor);
  children.send_from(/*first=*/1, SIGKILL);
  children.wait_until(monotonic_s() + kDiagnosisLimitS, signal_monitor);
  children.send_from(/*first=*/0, SIGKILL);
}

/// Forks processes for the ranks, and watches them from the parent, which runs no rank.
JobResult run_in_processes(LocalJob& job, const JobSettings& settings, const JobCallbacks& callbacks) {
  ChildProcesses children(job, settings, callbacks);
  SignalMonitor signal_monitor(job);
  // Process 0 detects stalls first (JobMonitor). This watchdog acts if process 0 itself hangs or is stopped.
  Watchdog watchdog(job, settings.limit_s, monotonic_s());
  AbortGracePeriod grace;
  bool has_continued = false;
  bool has_killed = false;
  for (children.reap(); children.is_running(); children.reap()) {
    signal_monitor.wait();
    const double time_for_process0_s = children.is_process0_stopped() ? 0 : kDiagnosisLimitS;
    if (const auto stall = watchdog.check_progress(monotonic_s(), time_for_process0_s))
      job.abort(ExitCode::rank_lost, stall->message);
    if (job.aborted() && !has_continued) {
      children.send_from(/*first=*/0, SIGCONT);  // a stopped process would not see the abort
      has_continued = true;
    }
    if (grace.is_over(job) && !has_killed) {
      kill_children(children, signal_monitor);
      has_killed = true;
    }
  }
  if (const auto failure = job.failure()) return {static_cast<int>(failure->exit), failure->message};
  return {children.process0_exit_code()};
}

}  // namespace

void report_failure(Job& job, int rank) {
  if (job.has_withdrawn()) return;
  try {
    throw;
  } catch (const JobAborted&) {
  } catch (const EnvironmentError& error) {
    // The environment of this process failed, such as its GPU. Other processes may continue without it.
    if (!job.withdraw(fmt::format("failed in phase {}: {}", name(job.progress(rank).phase), error.what())))
      job.abort(error.exit(), job.with_rank_name(rank, error.what()));
  } catch (const Error& error) {
    job.abort(error.exit(), job.with_rank_name(rank, error.what()));
  } catch (const std::exception& error) {
    job.abort(ExitCode::environment, fmt::format("{} failed in phase {}: {}", job.rank_name(rank),
                                                 name(job.progress(rank).phase), error.what()));
  }
}

JobResult run_job(LocalJob& job, const JobSettings& settings, const JobCallbacks& callbacks) {
  const SignalMask mask;
  return settings.processes == 1 ? run_in_this_process(job, 0, settings, callbacks)
                                 : run_in_processes(job, settings, callbacks);
}

JobResult run_process_of_job(Job& job, int first_rank, const JobSettings& settings, const JobCallbacks& callbacks) {
  const SignalMask mask;
  return run_in_this_process(job, first_rank, settings, callbacks);
}

}  // namespace busbw
