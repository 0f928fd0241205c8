#pragma once
// Grid of an operation: its blocks and threads, and how it divides the cells into steps (schedule.hpp).
#include <cstddef>
#include <cstdint>

namespace busbw::fastpath {

/// Limits of a grid: blocks, threads per block, and threads per warp.
inline constexpr int kMaxBlocks = 256;
inline constexpr int kMaxThreads = 512;  // per block
inline constexpr int kWarpThreads = 32;

/// Grid of one operation. All threads take part in all steps, with the same number of cells.
struct Grid {
  int blocks = 1;
  int threads = kWarpThreads;  ///< per block, a multiple of a warp
  int batch = 1;               ///< cells per thread and step
  int steps = 1;
};

/// Returns the grid for slices of `bytes`, within the given limits. `max_cells` is the number of slots for cells from
/// one peer, which limits the cells of a step. The grid has at most about one thread per cell and distributes the cells
/// evenly over the steps. It depends on the arguments alone, so all ranks get the same grid.
Grid grid_for(std::size_t bytes, int max_blocks, int max_threads_per_block, int max_cells);

/// Returns the grid for a direct operation with `cells` cells per rank, within the same limits. It has at most
/// about one thread per cell.
Grid direct_grid(std::int64_t cells, int max_blocks, int max_threads_per_block, int max_cells);

}  // namespace busbw::fastpath
