#include "fastpath/grid.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>

#include "fastpath/line.hpp"

using namespace busbw::fastpath;

TEST_CASE("a line holds 120 bytes, in cells that follow each other without a gap") {
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

TEST_CASE("slices are whole lines, cover all bytes and no slice more than they need") {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (std::size_t bytes = 0; bytes < 5000; ++bytes) {
      const std::size_t slice = slice_bytes(bytes, ranks);
      const auto n = static_cast<std::size_t>(ranks);
      const bool is_right =
          slice % kLineDataBytes == 0 && slice * n >= bytes && (slice == 0 || (slice - kLineDataBytes) * n < bytes);
      CHECK_MESSAGE(is_right, bytes << " bytes, " << ranks << " ranks: " << slice);
    }
}

TEST_CASE("a grid has a thread and a step for each cell, and keeps to what it may use") {
  int grids = 0;
  for (std::size_t bytes = 0; bytes < (std::size_t{1} << 31); bytes = bytes * 5 / 3 + 7)
    for (const int blocks : {1, 2, 7, 64, kMaxBlocks})
      for (const int threads : {32, 96, 128, kMaxThreads})
        for (const int most : {32, 2048, 5000, 1 << 17}) {
          const Grid grid = grid_for(bytes, blocks, threads, most);
          const std::int64_t of_step = static_cast<std::int64_t>(grid.blocks) * grid.threads;
          const std::int64_t cells = lines_of(bytes) * kCellsOfLine;
          const bool is_right = grid.blocks >= 1 && grid.blocks <= blocks && grid.threads >= kWarpThreads &&
                                grid.threads <= threads && grid.threads % kWarpThreads == 0 && grid.steps >= 1 &&
                                of_step <= most && of_step * grid.steps >= cells;
          // Spread evenly: a step less would not do, nor would a warp less in each block.
          const bool is_tight =
              (grid.steps == 1 || of_step * (grid.steps - 1) < cells) &&
              (grid.threads == kWarpThreads ||
               static_cast<std::int64_t>(grid.blocks) * (grid.threads - kWarpThreads) * grid.steps < cells);
          CHECK_MESSAGE((is_right && is_tight), bytes << " bytes, at most " << blocks << " x " << threads << " of "
                                                      << most << ": " << grid.blocks << " x " << grid.threads << ", "
                                                      << grid.steps << " steps");
          ++grids;
        }
  CHECK(grids > 2000);
}
