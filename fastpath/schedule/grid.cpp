#include "fastpath/schedule/grid.hpp"

#include <algorithm>
#include <cstdint>

#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {
namespace {

std::int64_t divide_round_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Limits of a grid, in warps. The threads of a warp act together.
struct GridLimits {
  std::int64_t slots;            ///< warps with slots in a step
  std::int64_t warps_per_block;
  std::int64_t max_block_count;
};

GridLimits limits_of(int max_blocks, int threads_of_block, int max_cells) {
  const std::int64_t slots = std::max(1, max_cells / kWarpThreads);
  const std::int64_t warps_per_block =
      std::min<std::int64_t>(std::clamp(threads_of_block, kWarpThreads, kMaxThreads) / kWarpThreads, slots);
  const std::int64_t max_block_count =
      std::clamp<std::int64_t>(max_blocks, 1, std::min<std::int64_t>(kMaxBlocks, slots / warps_per_block));
  return {slots, warps_per_block, max_block_count};
}

}  // namespace

Grid grid_for(std::size_t bytes, int max_blocks, int threads_of_block, int max_cells) {
  const std::int64_t cells = divide_round_up(std::max<std::int64_t>(1, lines_of(bytes)) * kCellsOfLine, kWarpThreads);
  const auto [slots, warps_per_block, max_block_count] = limits_of(max_blocks, threads_of_block, max_cells);
  const std::int64_t max_warps = max_block_count * warps_per_block;
  const std::int64_t steps = divide_round_up(cells, slots / max_warps * max_warps);
  const std::int64_t batch = divide_round_up(cells, steps * max_warps);
  const std::int64_t threads = divide_round_up(cells, steps * batch);
  const std::int64_t blocks = divide_round_up(threads, warps_per_block);
  return {static_cast<int>(blocks), static_cast<int>(divide_round_up(threads, blocks)) * kWarpThreads,
          static_cast<int>(batch), static_cast<int>(steps)};
}

Grid direct_grid(std::int64_t cells, int max_blocks, int threads_of_block, int max_cells) {
  // The first warp of a block uses the block's slots for the barrier. Slots are indexed by thread.
  const auto [slots, warps_per_block, max_block_count] = limits_of(max_blocks, threads_of_block, max_cells);
  const std::int64_t blocks =
      std::clamp<std::int64_t>(divide_round_up(cells, warps_per_block * kWarpThreads), 1, max_block_count);
  return {static_cast<int>(blocks), static_cast<int>(warps_per_block) * kWarpThreads, 1, kDirectSteps};
}

}  // namespace busbw::fastpath
