// Divides the cells of an operation into blocks, threads, batches and steps, in units of warps.
#include "fastpath/schedule/grid.hpp"

#include <algorithm>
#include <cstdint>

#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {
namespace {

std::int64_t divide_round_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

/// Limits of a grid, in warps, because the threads of a warp act together.
struct GridLimits {
  std::int64_t warps_with_slots;  ///< warps that have slots for one cell per thread in a step
  std::int64_t warps_per_block;
  std::int64_t max_block_count;
};

GridLimits grid_limits(int max_blocks, int max_threads_per_block, int max_cells) {
  const std::int64_t warps_with_slots = std::max(1, max_cells / kWarpThreads);
  const std::int64_t warps_per_block = std::min<std::int64_t>(
      std::clamp(max_threads_per_block, kWarpThreads, kMaxThreads) / kWarpThreads, warps_with_slots);
  const std::int64_t max_block_count =
      std::clamp<std::int64_t>(max_blocks, 1, std::min<std::int64_t>(kMaxBlocks, warps_with_slots / warps_per_block));
  return {.warps_with_slots = warps_with_slots, .warps_per_block = warps_per_block, .max_block_count = max_block_count};
}

}  // namespace

Grid grid_for(std::size_t bytes, int max_blocks, int max_threads_per_block, int max_cells) {
  // Cells are counted in groups of 32: one cell for each thread of a warp. Example: 64 KiB are 137 groups. There are
  // slots for 65536 cells, and up to 8 blocks of 512 threads, or 128 warps. The groups then take 1 step with a batch of
  // 2 on 69 warps: 5 blocks of 14 warps.
  const std::int64_t cell_groups =
      divide_round_up(std::max<std::int64_t>(1, lines_of(bytes)) * kCellsOfLine, kWarpThreads);
  const auto [warps_with_slots, warps_per_block, max_block_count] =
      grid_limits(max_blocks, max_threads_per_block, max_cells);
  const std::int64_t max_warps = max_block_count * warps_per_block;
  // In a full step, every thread has the same number of cells, so the groups are a whole multiple of `max_warps`.
  const std::int64_t max_groups_per_step = warps_with_slots / max_warps * max_warps;
  const std::int64_t steps = divide_round_up(cell_groups, max_groups_per_step);
  // `batch` is the minimum of cells per thread for these steps, and `warps` the minimum for this batch.
  const std::int64_t batch = divide_round_up(cell_groups, steps * max_warps);
  const std::int64_t warps = divide_round_up(cell_groups, steps * batch);
  const std::int64_t blocks = divide_round_up(warps, warps_per_block);
  const std::int64_t used_warps_per_block = divide_round_up(warps, blocks);
  return {.blocks = static_cast<int>(blocks),
          .threads = static_cast<int>(used_warps_per_block) * kWarpThreads,
          .batch = static_cast<int>(batch),
          .steps = static_cast<int>(steps)};
}

Grid direct_grid(std::int64_t cells, int max_blocks, int max_threads_per_block, int max_cells) {
  // Slots limit this grid too: the barriers use the slots of each block's first warp, which are indexed by thread.
  const auto [warps_with_slots, warps_per_block, max_block_count] =
      grid_limits(max_blocks, max_threads_per_block, max_cells);
  const std::int64_t blocks =
      std::clamp<std::int64_t>(divide_round_up(cells, warps_per_block * kWarpThreads), 1, max_block_count);
  return {.blocks = static_cast<int>(blocks),
          .threads = static_cast<int>(warps_per_block) * kWarpThreads,
          .batch = 1,
          .steps = kDirectSteps};
}

}  // namespace busbw::fastpath
