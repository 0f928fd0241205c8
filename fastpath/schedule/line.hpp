#pragma once
// Layout of a user's bytes in the lines that are sent to a peer. A line has 128 bytes, in 8 cells of 16 bytes. The last
// cell holds 8 bytes of data and the 8-byte tag, so a line carries 120 bytes of data. Eight neighboring threads
// transfer it with one instruction, one cell each. The protocol requires that a line arrives as a whole and is read as
// a whole (docs/explanation/fast-path.md).
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
