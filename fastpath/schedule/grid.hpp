#pragma once
// How many threads work on an operation, and in how many steps.
#include <cstddef>
#include <cstdint>

namespace busbw::fastpath {

inline constexpr int kMaxBlocks = 256;
inline constexpr int kMaxThreads = 512;  // of a block
inline constexpr int kWarpThreads = 32;

/// All threads take part in all steps, each with as many cells.
struct Grid {
  int blocks = 1;
  int threads = kWarpThreads;  ///< of a block, a multiple of a warp
  int batch = 1;               ///< cells of a thread in a step
  int steps = 1;
};

/// The grid for slices of `bytes`: at most so many blocks of at most so many threads, in a step no more than
/// `max_cells` (for which there are slots), no more threads than there are cells, and spread evenly over the steps. A
/// function of its arguments alone, so that all ranks come to the same one.
Grid grid_for(std::size_t bytes, int max_blocks, int threads_of_block, int max_cells);

/// The grid for a direct operation in which a rank moves `cells` cells, by the same limits: a thread for each cell, or
/// fewer.
Grid direct_grid(std::int64_t cells, int max_blocks, int threads_of_block, int max_cells);

}  // namespace busbw::fastpath
