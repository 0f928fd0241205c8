#pragma once
// Input of every rank: the plan, which is fixed before the ranks start. run_setup makes it, rank_runner uses it.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/sweep_types.hpp"
#include "comm_ops/comm_ops_settings.hpp"
#include "flows/server.hpp"
#include "interference/neighbor_load.hpp"
#include "measure/buffers.hpp"
#include "options/fault.hpp"
#include "replay/matched_calls.hpp"
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
  std::optional<FlowService> flow_service = {};  // if the job measures flows on request instead of the sweep
  /// Operation with even counts, with which a skewed operation is compared (--skew).
  std::shared_ptr<const Collective> balanced = {};
  std::optional<NeighborLoad> neighbor = {};        // load that runs next to the measured operation (--with)
  std::shared_ptr<const MatchedCalls> replay = {};  // if the job replays a program instead of the sweep
  std::optional<CommOpsSettings> comm_ops = {};  // if the job measures the life of communicators instead of the sweep

  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  /// Start of the neighbor's part in each buffer: a multiple of 4 KiB.
  std::size_t neighbor_offset() const {
    constexpr std::size_t kAlignBytes = 4096;
    const std::size_t measured = buffer_bytes(max_bytes, settings.unalign_elements);
    return (measured + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  }
  /// Size of each buffer, for the measured operation and the neighbor.
  std::size_t bytes_per_buffer() const {
    if (!neighbor) return buffer_bytes(max_bytes, settings.unalign_elements);
    return neighbor_offset() + buffer_bytes(neighbor->bytes, 0);
  }
  int ranks() const { return settings.processes * ranks_per_process(); }
};

}  // namespace busbw
