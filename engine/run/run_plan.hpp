#pragma once
// Settings that are fixed before the ranks start.
#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/sweep_types.hpp"
#include "values/run_result.hpp"
#include "values/split.hpp"

namespace busbw {

struct RunPlan {
  const Collective& collective;
  Sweep sweep;
  RunSettings settings;
  std::vector<Placement> placements;
  Split split;
  std::uint64_t max_bytes = 0;  // size of the buffers, at most settings.max_bytes
  int first_rank = 0;  // first of the ranks that this process and its forks run

  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  int ranks() const { return settings.processes * ranks_per_process(); }
};

/// Callbacks of a rank. `begin` and `rows` are called on rank 0, in this order. Each may throw, which ends the run.
struct RunCallbacks {
  std::function<void(const std::vector<RankInfo>&)> begin;
  std::function<void(const CaseRows&)> rows;
  /// Reports the failure of `rank` to the job. Called on any rank, while its exception is handled. It precedes the
  /// destruction of the communicator, which may fail other ranks.
  std::function<void(int rank)> failed = {};
  std::function<void(std::vector<RankMemory>)> memory = {};  // with -M, after the last row; may be empty
};

}  // namespace busbw
