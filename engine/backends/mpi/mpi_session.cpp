#include "backends/mpi/mpi_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "backends/mpi/mpi_calls.hpp"
#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"

namespace busbw {
namespace {

constexpr double kLeaveLimitS = 10;

/// Ends the process with a message if it is not destroyed within the time limit.
class CallTimeLimit {
 public:
  CallTimeLimit(double limit_s, std::string sentence) {
    thread_ = std::thread([this, limit_s, sentence = std::move(sentence)] {
      std::unique_lock lock(mutex_);
      if (over_changed_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return over_; })) return;
      print_stderr("busbw-engine-mpi", sentence);
      _exit(static_cast<int>(ExitCode::rank_lost));
    });
  }
  ~CallTimeLimit() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    over_changed_.notify_one();
    thread_.join();
  }
  CallTimeLimit(const CallTimeLimit&) = delete;
  CallTimeLimit& operator=(const CallTimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

void rank_and_size(MPI_Comm members, int& rank, int& size) {
  require_mpi(MPI_Comm_rank(members, &rank), "MPI_Comm_rank");
  require_mpi(MPI_Comm_size(members, &size), "MPI_Comm_size");
}

}  // namespace

MpiWorld init_mpi(double limit_s) {
  const CallTimeLimit guard(
      limit_s, fmt::format("MPI_Init did not return within {:g} s, in phase rendezvous: not all processes came, or "
                           "MPI finds no way between their hosts; see what MPI wrote, or raise "
                           "BUSBW_JOIN_TIMEOUT_S",
                           limit_s));
  int provided = 0;
  // The main thread and the rank's thread use MPI, but only one of them at a time.
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS)
    throw EnvironmentError(fmt::format("MPI_Init_thread failed with code {}; see what MPI wrote", code));
  if (provided < MPI_THREAD_SERIALIZED)
    throw EnvironmentError(
        "this MPI allows calls by the first thread only (no MPI_THREAD_SERIALIZED); use one that was "
        "built for threads");
  require_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MpiWorld place;
  rank_and_size(MPI_COMM_WORLD, place.rank, place.size);
  MPI_Comm node = MPI_COMM_NULL;
  require_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
  rank_and_size(node, place.local_rank, place.local_size);
  require_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return place;
}

void finalize_mpi() {
  const CallTimeLimit guard(
      kLeaveLimitS, fmt::format("MPI_Finalize did not return within {:g} s, in phase report: a process was lost "
                                "after the last row",
                                kLeaveLimitS));
  MPI_Finalize();
}

}  // namespace busbw
