#pragma once
// Ranks of a stress run: threads, processes or one thread for all ranks. With a barrier and a watchdog that prints the
// last step of each rank.
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace stress {

inline constexpr int kMaxRanks = 8;
inline constexpr int kNoProgressS = 20;

enum class Mode {
  threads,
  single,
  processes,
  sharing,  ///< processes that share GPU 0
};

/// Memory that all ranks share, also processes. It is created before the fork and initially zero.
struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> generation;
  std::atomic<std::uint64_t> progress[kMaxRanks];
  char last[kMaxRanks][200];
  ncclUniqueId id;
  std::atomic<std::uint64_t> hashes[kMaxRanks];
  std::atomic<std::uint64_t> wrong;
  std::atomic<std::uint64_t> counted[32];  ///< counters with a meaning that the run defines
  std::atomic<std::int64_t> bytes[8];
  std::atomic<int> stop;
  std::atomic<int> over;  ///< not 0: the watchdog ends
};

/// A rank that this thread runs.
struct Rank {
  int rank = 0;
  int gpu = 0;
  std::vector<cudaStream_t> streams;
};

/// View of one thread: all ranks if a single thread runs everything, otherwise one rank.
struct Team {
  Shared& shared;
  int ranks;
  Mode mode;
  std::vector<Rank> mine;

  bool first() const { return mine.front().rank == 0; }
  int executors() const { return mode == Mode::single ? 1 : ranks; }
  /// Records this thread's next step for the watchdog.
  void doing(const char* format, ...) const __attribute__((format(printf, 2, 3)));
  /// Waits for all threads.
  void barrier() const;
  /// Calls `call(rank, index)` for each rank of this thread with its GPU current, as one NCCL group if there are
  /// several.
  void grouped(const char* activity, const std::function<ncclResult_t(Rank&, std::size_t)>& call);
  /// The same without a group.
  void each(const std::function<void(Rank&, std::size_t)>& act);
  /// Creates a communicator of all ranks and returns one handle for each rank of this thread. Collective.
  std::vector<ncclComm_t> new_communicators(ncclConfig_t* config = nullptr);
  /// Waits until all work on this thread's streams has run.
  void finish(const char* activity);
};

/// Ends the process with code 3 and a message if a call has failed.
void check(cudaError_t error, const char* activity);
void check(ncclResult_t result, const char* activity);
/// Counts wrong data and prints the first messages.
void wrong(Shared& shared, const char* format, ...) __attribute__((format(printf, 2, 3)));

Shared& make_shared();

/// Runs `act` in the threads or processes of the mode, with a watchdog. Returns the exit code: 0, 1 for wrong data, 3
/// if a call failed, 4 without progress for kNoProgressS.
int run_team(Shared& shared, int ranks, Mode mode, const std::function<void(Team&)>& act);

}  // namespace stress
