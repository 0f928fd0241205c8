#pragma once
// The plan of a run. make_plan() (run_setup.hpp) makes the plan before the ranks start; rank_runner.hpp runs it.
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

/// Cases to run and their settings. All processes have the same values, except `first_rank` and the descriptors in
/// `flow_service`.
struct RunPlan {
  const Collective& collective;
  Sweep sweep;
  RunSettings settings;
  std::vector<Placement> placements;
  Split split;
  std::uint64_t max_bytes = 0;  // largest size for which the memory suffices (MemoryPlan::max_bytes)
  int first_rank = 0;  // first rank of this process and its forks
  std::optional<Fault> fault = {};
  std::optional<FlowService> flow_service = {};  // if the job measures flows on request instead of the sweep
  /// Operation with even counts, with which a skewed operation is compared (--skew).
  std::shared_ptr<const Collective> balanced = {};
  std::optional<NeighborLoad> neighbor = {};        // load that runs next to the measured operation (--with)
  std::shared_ptr<const MatchedCalls> replay = {};  // if the job replays a program instead of the sweep
  std::optional<CommOpsSettings> comm_ops = {};  // if the job measures the life of communicators instead of the sweep

  int ranks_per_process() const { return settings.threads * settings.gpus_per_thread; }
  /// Offset of the neighbor's part in each buffer: the end of the measured operation's part, rounded up to 4 KiB.
  std::size_t neighbor_offset() const {
    constexpr std::size_t kAlignBytes = 4096;
    return (measured_part_bytes() + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  }
  /// Size to allocate for each buffer: the part of the measured operation, then that of the neighbor if there is one.
  std::size_t bytes_per_buffer() const {
    if (!neighbor) return measured_part_bytes();
    return neighbor_offset() + buffer_bytes(neighbor->bytes, /*unalign_elements=*/0);
  }
  int ranks() const { return settings.processes * ranks_per_process(); }

 private:
  /// Size of a buffer's part for the measured operation: `max_bytes` of data with guards and space for -u.
  std::size_t measured_part_bytes() const { return buffer_bytes(max_bytes, settings.unalign_elements); }
};

}  // namespace busbw
