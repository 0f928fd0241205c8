#pragma once
// Layout of a user's bytes in the lines that are sent to a peer:
//
//   - A cell has 16 bytes. One thread transfers a cell.
//   - A line has 8 cells, which eight neighboring threads transfer with one instruction. The last cell holds 8 bytes of
//     data and the tag, so a line carries 120 bytes of data.
//   - A tag is a number of 8 bytes. The receiver reads a line again until the line has the tag of the expected step.
//
// The protocol assumes these properties of the hardware, which CUDA's memory model does not promise:
//
//   1. If a warp writes a line with one instruction to 128 aligned bytes, the line arrives as a whole. NCCL's LL128
//      assumes this for NVLink. It does not hold for PCI Express.
//   2. If a warp reads a line with one instruction and gets the new tag, the warp also gets the new data. NVSHMEM's
//      LL128 and NCCL before 2.17 assume this; NCCL since 2.17.1 loads again. On one H200, 0 of 61 billion lines were
//      mixed (bench/results/h200-x1-tests.md). It was not tested over NVLink.
//   3. A thread reads tags and writes only if these tags have arrived. Peers do not see the write before the reads are
//      done, because hardware does not write before a branch is decided.
//   4. If wait_for_tags() (device/launch.cu) sees the last tag of an operation, the results of all its blocks are in
//      memory when the next kernel of the waiting stream begins. The operation's kernel writes its last tag after its
//      last __syncthreads(), without a fence. The results have enough time: wait_for_tags() polls every 0.2 us, and
//      then another kernel has to start.
#include <cstddef>
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"

namespace busbw::fastpath {

inline constexpr int kCellsOfLine = 8;
inline constexpr int kCellBytes = 16;
inline constexpr int kLineDataBytes = 120;

/// Returns the number of lines that carry `bytes` bytes of data.
BUSBW_HOST_DEVICE constexpr std::int64_t lines_of(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kLineDataBytes - 1) / kLineDataBytes);
}

/// Returns the offset of a cell's data in the user's bytes. `index` counts the cells of all lines from 0. The last cell
/// of a line has only 8 bytes of data, so cell 7 is at offset 112 and cell 8 at offset 120.
BUSBW_HOST_DEVICE constexpr std::int64_t offset_of_cell(std::int64_t index) {
  return index / kCellsOfLine * kLineDataBytes + index % kCellsOfLine * kCellBytes;
}

/// Returns the length in bytes of a full slice if a buffer of `bytes` is divided into one slice per rank. A full slice
/// fills whole lines, so the last slices may be shorter or empty. Example: 1000 bytes on 4 ranks give 360, so the
/// slices have 360, 360, 280 and 0 bytes.
BUSBW_HOST_DEVICE constexpr std::size_t slice_bytes(std::size_t bytes, int ranks) {
  const auto slices = static_cast<std::int64_t>(ranks);
  return static_cast<std::size_t>((lines_of(bytes) + slices - 1) / slices * kLineDataBytes);
}

}  // namespace busbw::fastpath
