#pragma once
// Input of every rank: the plan, which is fixed before the ranks start, and the callbacks to the reporter and the job.
// run_setup makes both, rank_runner uses them.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/sweep_types.hpp"
#include "options/fault.hpp"
#include "values/run_result.hpp"
#include "values/split.hpp"

namespace busbw {

/// Cases to run and their settings, the same on all ranks.
struct RunPlan {
  const Collective& collective;
  Sweep sweep;
  RunSettings settings;
  std::vector<Placement> placements;
  Split split;
  std::uint64_t max_bytes = 0;  // size of the buffers, at most settings.max_bytes
  int first_rank = 0;  // first rank of this process and its forks
  std::optional<Fault> fault = {};

  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  int ranks() const { return settings.processes * ranks_per_process(); }
};

/// Callbacks of a rank. Each may throw, which ends the run.
struct RunCallbacks {
  std::function<void(const std::vector<RankInfo>&)> begin;  // on rank 0, when all ranks are connected
  std::function<void(const CaseRows&)> rows;                // on rank 0, after each case
  /// Reports the failure of `rank` to the job. Called on any rank, while its exception is handled. The rank destroys
  /// its communicator afterwards, because that may make other ranks fail.
  std::function<void(int rank)> failed = {};
  std::function<void(std::vector<RankMemory>)> memory = {};  // on rank 0 with -M, after the last row
};

}  // namespace busbw
