#include "fastpath/schedule/grid.hpp"

#include <algorithm>
#include <cstdint>

#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {
namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// What a grid may take at most, counted in warps, whose threads act together.
struct GridLimits {
  std::int64_t slots;           ///< of a step
  std::int64_t of_block;        ///< warps of a block
  std::int64_t blocks_at_most;  ///< of so many warps each
};

GridLimits limits_of(int max_blocks, int threads_of_block, int max_cells) {
  const std::int64_t slots = std::max(1, max_cells / kWarpThreads);
  const std::int64_t of_block =
      std::min<std::int64_t>(std::clamp(threads_of_block, kWarpThreads, kMaxThreads) / kWarpThreads, slots);
  const std::int64_t blocks_at_most =
      std::clamp<std::int64_t>(max_blocks, 1, std::min<std::int64_t>(kMaxBlocks, slots / of_block));
  return {slots, of_block, blocks_at_most};
}

}  // namespace

Grid grid_for(std::size_t bytes, int max_blocks, int threads_of_block, int max_cells) {
  const std::int64_t cells = divided_up(std::max<std::int64_t>(1, lines_of(bytes)) * kCellsOfLine, kWarpThreads);
  const auto [slots, of_block, blocks_at_most] = limits_of(max_blocks, threads_of_block, max_cells);
  const std::int64_t threads_at_most = blocks_at_most * of_block;
  const std::int64_t steps = divided_up(cells, slots / threads_at_most * threads_at_most);
  const std::int64_t batch = divided_up(cells, steps * threads_at_most);
  const std::int64_t threads = divided_up(cells, steps * batch);
  const std::int64_t blocks = divided_up(threads, of_block);
  return {static_cast<int>(blocks), static_cast<int>(divided_up(threads, blocks)) * kWarpThreads,
          static_cast<int>(batch), static_cast<int>(steps)};
}

Grid direct_grid(std::int64_t cells, int max_blocks, int threads_of_block, int max_cells) {
  // A block's first warp has slots to meet its likes; slots are counted by threads.
  const auto [slots, of_block, blocks_at_most] = limits_of(max_blocks, threads_of_block, max_cells);
  const std::int64_t blocks = std::clamp<std::int64_t>(divided_up(cells, of_block * kWarpThreads), 1, blocks_at_most);
  return {static_cast<int>(blocks), static_cast<int>(of_block) * kWarpThreads, 1, kDirectSteps};
}

}  // namespace busbw::fastpath
