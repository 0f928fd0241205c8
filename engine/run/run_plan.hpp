#pragma once
// All that is fixed before the ranks start.
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
  std::uint64_t max_bytes = 0;  // what the buffers hold, at most settings.max_bytes
  int first_rank = 0;           // of those that this process, and what it forks, runs

  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  int ranks() const { return settings.processes * ranks_per_process(); }
};

/// The first two are called on rank 0, in this order; each may throw, which ends the run.
struct RunCallbacks {
  std::function<void(const std::vector<RankInfo>&)> begin;
  std::function<void(const CaseRows&)> rows;
  /// On any rank, while its exception is handled and before it leaves the communicator, which may take the others:
  /// tells them.
  std::function<void(int rank)> failed = {};
  std::function<void(std::vector<RankMemory>)> memory = {};  // with -M, after the last row; may be empty
};

}  // namespace busbw
