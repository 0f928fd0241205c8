#pragma once
// How a user's bytes lie in lines: a line is 128 bytes on the wire, 120 bytes of data and a tag of 8.
// Eight neighbouring threads write one line with one instruction and read it with one; it has to arrive whole, and to
// be read whole (docs/fastpath.md).
#include <cstddef>
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"

namespace busbw::fastpath {

inline constexpr int kCellsOfLine = 8;
inline constexpr int kCellBytes = 16;
inline constexpr int kLineDataBytes = 120;

/// Lines that `bytes` take.
BUSBW_HOST_DEVICE constexpr std::int64_t lines_of(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kLineDataBytes - 1) / kLineDataBytes);
}

/// Where the data of a cell begins within its slice, in bytes. A cell has 16 bytes, the last of each line 8.
BUSBW_HOST_DEVICE constexpr std::int64_t offset_of_cell(std::int64_t index) {
  return index / kCellsOfLine * kLineDataBytes + index % kCellsOfLine * kCellBytes;
}

/// A slice's length in bytes where `bytes` are cut into one slice for each rank: whole lines, the last may be shorter.
BUSBW_HOST_DEVICE constexpr std::size_t slice_bytes(std::size_t bytes, int ranks) {
  const auto n = static_cast<std::int64_t>(ranks);
  return static_cast<std::size_t>((lines_of(bytes) + n - 1) / n * kLineDataBytes);
}

}  // namespace busbw::fastpath
