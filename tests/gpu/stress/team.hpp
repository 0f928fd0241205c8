#pragma once
// The ranks of a stress run: threads, processes or one thread for all, with a barrier, and a watchdog that says where
// each is.
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
  sharing,  ///< processes that have GPU 0 together
};

/// Seen by all ranks, also by processes: it is made before they are forked, and all of it is zero then.
struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> generation;
  std::atomic<std::uint64_t> progress[kMaxRanks];
  char last[kMaxRanks][200];
  ncclUniqueId id;
  std::atomic<std::uint64_t> hashes[kMaxRanks];
  std::atomic<std::uint64_t> wrong;
  std::atomic<std::uint64_t> counted[32];  ///< by whoever uses it
  std::atomic<std::int64_t> bytes[8];
  std::atomic<int> stop;
  std::atomic<int> over;  ///< no watching any more
};

/// A rank that this thread acts for.
struct Rank {
  int rank = 0;
  int gpu = 0;
  std::vector<cudaStream_t> streams;
};

/// What one thread knows: all ranks where a single thread does everything, otherwise one.
struct Team {
  Shared& shared;
  int ranks;
  Mode mode;
  std::vector<Rank> mine;

  bool first() const { return mine.front().rank == 0; }
  int executors() const { return mode == Mode::single ? 1 : ranks; }
  /// What this thread does next, for the watchdog.
  void doing(const char* format, ...) const __attribute__((format(printf, 2, 3)));
  /// Waits for all threads.
  void meet() const;
  /// `call(rank, index)` for each of mine with its GPU current, as one group where there are several.
  void grouped(const char* what, const std::function<ncclResult_t(Rank&, std::size_t)>& call);
  /// The same without a group.
  void each(const std::function<void(Rank&, std::size_t)>& act);
  /// A communicator of all ranks, one for each of mine. Collective.
  std::vector<ncclComm_t> new_communicators(ncclConfig_t* config = nullptr);
  /// Waits until everything on the streams of mine has run.
  void finish(const char* what);
};

/// Ends the process with code 3 and a sentence where something failed.
void check(cudaError_t error, const char* what);
void check(ncclResult_t result, const char* what);
/// Counts a failure and says it, the first ones at least.
void wrong(Shared& shared, const char* format, ...) __attribute__((format(printf, 2, 3)));

Shared& make_shared();

/// Runs `act` in as many threads or processes as the mode takes, watched. The exit code: 0, 1 where something was
/// wrong, 3 where something failed, 4 where nothing moved for kNoProgressS.
int run_team(Shared& shared, int ranks, Mode mode, const std::function<void(Team&)>& act);

}  // namespace stress
