#include "fastpath/schedule/grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

using namespace busbw::fastpath;

TEST_CASE("a line has 120 bytes of data in adjacent cells") {
  CHECK(lines_of(0) == 0);
  CHECK(lines_of(1) == 1);
  CHECK(lines_of(120) == 1);
  CHECK(lines_of(121) == 2);
  std::int64_t end = 0;
  for (std::int64_t index = 0; index < 64; ++index) {
    CHECK(offset_of_cell(index) == end);
    end += index % kCellsOfLine == kCellsOfLine - 1 ? kCellBytes / 2 : kCellBytes;
  }
  CHECK(end == 64 / kCellsOfLine * kLineDataBytes);
}

TEST_CASE("slices are whole lines and cover all bytes with no empty slice more than needed") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (std::size_t bytes = 0; bytes < 5000; ++bytes) {
      const std::size_t slice = slice_bytes(bytes, ranks);
      const auto n = static_cast<std::size_t>(ranks);
      const bool is_right =
          slice % kLineDataBytes == 0 && slice * n >= bytes && (slice == 0 || (slice - kLineDataBytes) * n < bytes);
      CHECK_MESSAGE(is_right, bytes << " bytes, " << ranks << " ranks: " << slice);
    }
}

TEST_CASE("a grid covers every cell and respects its limits") {
  int grids = 0;
  int batches = 0;
  int steps = 0;
  for (std::size_t bytes = 0; bytes < (std::size_t{1} << 31); bytes = bytes * 5 / 3 + 7)
    for (const int blocks : {1, 2, 7, 64, kMaxBlocks, 1000})
      for (const int threads : {32, 96, 128, kMaxThreads, 4096})
        for (const int most : {32, 2048, 5000, 1 << 17}) {
          const Grid grid = grid_for(bytes, blocks, threads, most);
          const std::int64_t all_threads = static_cast<std::int64_t>(grid.blocks) * grid.threads;
          const std::int64_t turns = static_cast<std::int64_t>(grid.steps) * grid.batch;
          const std::int64_t cells = lines_of(bytes) * kCellsOfLine;
          const bool is_right = grid.blocks >= 1 && grid.blocks <= std::min(blocks, kMaxBlocks) &&
                                grid.threads >= kWarpThreads && grid.threads <= std::min(threads, kMaxThreads) &&
                                grid.threads % kWarpThreads == 0 && grid.batch >= 1 && grid.steps >= 1 &&
                                all_threads * grid.batch <= most && all_threads * turns >= cells;
          // Evenly distributed: one step, one cell per thread or one warp per block less would not be enough.
          const bool is_tight =
              (grid.steps == 1 || all_threads * grid.batch * (grid.steps - 1) < cells) &&
              (grid.batch == 1 || all_threads * (grid.batch - 1) * grid.steps < cells) &&
              (grid.threads == kWarpThreads || (all_threads - grid.blocks * kWarpThreads) * turns < cells);
          CHECK_MESSAGE((is_right && is_tight), bytes << " bytes, at most " << blocks << " x " << threads << ", "
                                                      << most << " cells: " << grid.blocks << " x " << grid.threads
                                                      << ", " << grid.steps << " steps of " << grid.batch);
          ++grids;
          batches += grid.batch > 1 ? 1 : 0;
          steps += grid.steps > 1 ? 1 : 0;
        }
  CHECK(grids > 4000);
  CHECK(batches > 1000);
  CHECK(steps > 1000);
}

TEST_CASE("larger slices use more threads first, then batches, then steps") {
  const auto is = [](std::size_t lines, int blocks, int threads, int batch, int steps) {
    const Grid grid = grid_for(lines * kLineDataBytes, 4, 64, 1024);
    CAPTURE(lines);
    CHECK(grid.blocks == blocks);
    CHECK(grid.threads == threads);
    CHECK(grid.batch == batch);
    CHECK(grid.steps == steps);
  };
  is(0, 1, 32, 1, 1);
  is(4, 1, 32, 1, 1);
  is(5, 1, 64, 1, 1);
  is(32, 4, 64, 1, 1);
  is(33, 3, 64, 2, 1);
  is(64, 4, 64, 2, 1);
  is(128, 4, 64, 4, 1);
  is(129, 3, 64, 3, 2);
  is(256, 4, 64, 4, 2);
}

TEST_CASE("a direct grid has one thread per cell or the maximum, and slots for its threads") {
  int full = 0;
  for (std::int64_t cells = 0; cells < std::int64_t{1} << 28; cells = cells * 5 / 3 + 7)
    for (const int blocks : {1, 2, 7, 64, kMaxBlocks, 1000})
      for (const int threads : {32, 96, 128, kMaxThreads, 4096})
        for (const int most : {32, 2048, 5000, 1 << 17}) {
          const Grid grid = direct_grid(cells, blocks, threads, most);
          const int all_threads = grid.blocks * grid.threads;
          const bool is_right = grid.blocks >= 1 && grid.blocks <= std::min(blocks, kMaxBlocks) &&
                                grid.threads >= kWarpThreads && grid.threads <= std::min(threads, kMaxThreads) &&
                                grid.threads % kWarpThreads == 0 && all_threads <= most && grid.batch == 1 &&
                                grid.steps == kDirectSteps;
          // One block less would not be enough. If threads have several cells, one block more would exceed the limits.
          const bool is_tight = grid.blocks == 1 || all_threads - grid.threads < cells;
          const bool has_more = grid.blocks < std::min(blocks, kMaxBlocks) && all_threads + grid.threads <= most;
          CHECK_MESSAGE((is_right && is_tight && (all_threads >= cells || !has_more)),
                        cells << " cells, at most " << blocks << " x " << threads << ", " << most
                              << " slots: " << grid.blocks << " x " << grid.threads);
          full += all_threads < cells ? 1 : 0;
        }
  CHECK(full > 1000);
}
