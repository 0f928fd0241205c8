#pragma once
// Layout of a user's bytes in the lines that are sent to a peer. A line has 128 bytes, in 8 cells of 16 bytes. The last
// cell holds 8 bytes of data and the 8-byte tag, so a line carries 120 bytes of data. Eight neighboring threads
// transfer a line with one instruction, one cell each. The protocol assumes these properties of the hardware, which
// CUDA's memory model does not promise:
//
//   - A line that a warp writes with one instruction to 128 aligned bytes arrives as a whole. NCCL's LL128 assumes this
//     for NVLink. It does not hold for PCI Express.
//   - A load of these 128 bytes with one instruction reads data that are as new as the tag. NVSHMEM's LL128 and NCCL
//     before 2.17 assume this; NCCL since 2.17.1 loads again. On one H200, 0 of 61 billion lines were mixed
//     (bench/results/h200-x1-tests.md). It was not tested over NVLink.
//   - A write of a thread stays behind the loads that it waited for, because hardware does not write before a branch
//     is decided.
//   - Results are in memory when work behind a wait for tags begins. The wait ends at least a poll (0.2 us) and a
//     kernel after the last barrier.
#include <cstddef>
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"

namespace busbw::fastpath {

/// Cells of a line, bytes of a cell, and bytes of data in a line.
inline constexpr int kCellsOfLine = 8;
inline constexpr int kCellBytes = 16;
inline constexpr int kLineDataBytes = 120;

/// Returns the number of lines for `bytes`.
BUSBW_HOST_DEVICE constexpr std::int64_t lines_of(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kLineDataBytes - 1) / kLineDataBytes);
}

/// Returns the offset in bytes of a cell's data within the data that the lines carry. A cell has 16 bytes of data, or 8
/// if it is the last of a line.
BUSBW_HOST_DEVICE constexpr std::int64_t offset_of_cell(std::int64_t index) {
  return index / kCellsOfLine * kLineDataBytes + index % kCellsOfLine * kCellBytes;
}

/// Returns the length in bytes of a full slice if a buffer of `bytes` is divided into one slice per rank. A full slice
/// consists of whole lines. Later slices may be shorter or empty.
BUSBW_HOST_DEVICE constexpr std::size_t slice_bytes(std::size_t bytes, int ranks) {
  const auto slices = static_cast<std::int64_t>(ranks);
  return static_cast<std::size_t>((lines_of(bytes) + slices - 1) / slices * kLineDataBytes);
}

}  // namespace busbw::fastpath
