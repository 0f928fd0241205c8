#pragma once
// Ranks of a LocalJob as threads, child processes for tests, and memory that they share.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/team/local_job.hpp"

namespace busbw {

/// Threads per process in tests with several processes. The thread sanitizer does not see synchronization between
/// processes and would report false races.
#ifdef __SANITIZE_THREAD__
inline constexpr int kThreadsBesideProcesses = 1;
#else
inline constexpr int kThreadsBesideProcesses = 2;
#endif

/// Runs `body` as every rank of `job`, each in a thread. Returns the end of each: "" or its error. An error aborts the
/// job.
inline std::vector<std::string> run_as_threads(LocalJob& job, const std::function<void(Team& world)>& body) {
  std::vector<std::string> ends(static_cast<std::size_t>(job.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      std::string& end = ends[static_cast<std::size_t>(rank)];
      try {
        body(*job.team(rank));
      } catch (const JobAborted&) {
        end = "aborted";
      } catch (const std::exception& error) {
        end = error.what();
        job.abort(ExitCode::wrong_data, end);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

/// A value in memory that forked processes share. Starts as zero.
template <class Value>
class Shared {
 public:
  Shared() {
    void* memory = mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    value_ = new (memory) Value();
  }
  ~Shared() { munmap(value_, sizeof(Value)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

/// A forked process that runs a function and returns a text. The destructor kills it if it still runs.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<std::string()>& body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::bad_alloc();
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(kTimeoutS);  // ends a test that hangs
      close(ends[0]);
      const std::string said = body();
      const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    reading_ = ends[0];
  }
  ~ChildProcess() {
    close(reading_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Waits for the end. Returns the text, and the signal or exit code if the process failed.
  std::string said() {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(reading_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    if (WIFSIGNALED(status)) text += " [signal " + std::to_string(WTERMSIG(status)) + "]";
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) text += " [exit " + std::to_string(WEXITSTATUS(status)) + "]";
    return text;
  }

 private:
  static constexpr unsigned kTimeoutS = 60;
  pid_t pid_ = 0;
  int reading_ = -1;
};

}  // namespace busbw
