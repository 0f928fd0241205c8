#include "fastpath/grid.hpp"

#include <algorithm>
#include <cstdint>

#include "fastpath/line.hpp"

namespace busbw::fastpath {
namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

Grid grid_for(std::size_t bytes, int most_blocks, int threads_of_block, int most_threads) {
  const std::int64_t cells = std::max<std::int64_t>(1, lines_of(bytes)) * kCellsOfLine;
  const std::int64_t warps = divided_up(cells, kWarpThreads);
  const std::int64_t warps_of_block =
      std::clamp(threads_of_block, kWarpThreads, std::min(kMaxThreads, most_threads)) / kWarpThreads;
  const std::int64_t room = std::max<std::int64_t>(1, most_threads / kWarpThreads / warps_of_block);
  const std::int64_t blocks_at_most = std::clamp<std::int64_t>(most_blocks, 1, std::min<std::int64_t>(kMaxBlocks, room));
  const std::int64_t steps = divided_up(warps, blocks_at_most * warps_of_block);
  const std::int64_t warps_of_step = divided_up(warps, steps);
  const std::int64_t blocks = divided_up(warps_of_step, warps_of_block);
  const std::int64_t evenly = divided_up(warps_of_step, blocks);
  return {static_cast<int>(blocks), static_cast<int>(evenly) * kWarpThreads, static_cast<int>(steps)};
}

}  // namespace busbw::fastpath
