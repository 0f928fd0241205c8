#pragma once
// Access to a user's buffer in cells (schedule.hpp), for any size and alignment. A buffer is one slice for all ranks,
// or is divided into one slice per rank.
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"
#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// A user's buffer and its slices. The stride is 0 if the whole buffer goes to or comes from every rank.
struct Slices {
  char* data = nullptr;
  std::int64_t stride = 0;  ///< bytes from the start of a slice to the start of the next one
  std::int64_t length = 0;  ///< bytes of a slice
  std::int64_t total = 0;   ///< bytes of the buffer; the last slices may be shorter or empty
  int granule = 1;  ///< bytes per access: the largest of 8, 4, 2, 1 that divides every slice's address and length
};

namespace slices {

/// Reads as many units as fit between `position` and `end`, and moves `position` behind the last one. Byte `offset` of
/// the slice becomes the lowest byte of `value`.
template <class Unit>
BUSBW_HOST_DEVICE void read_units(const char* slice, std::int64_t offset, std::int64_t end, std::int64_t& position,
                                  std::uint64_t& value) {
  constexpr std::int64_t kUnitBytes = sizeof(Unit);
  for (; position + kUnitBytes <= end; position += kUnitBytes)
    value |= static_cast<std::uint64_t>(*reinterpret_cast<const Unit*>(slice + position)) << (8 * (position - offset));
}

/// Writes as many units as fit between `position` and `end`, and moves `position` behind the last one.
template <class Unit>
BUSBW_HOST_DEVICE void write_units(char* slice, std::int64_t offset, std::int64_t end, std::int64_t& position,
                                   std::uint64_t value) {
  constexpr std::int64_t kUnitBytes = sizeof(Unit);
  for (; position + kUnitBytes <= end; position += kUnitBytes)
    *reinterpret_cast<Unit*>(slice + position) = static_cast<Unit>(value >> (8 * (position - offset)));
}

/// Returns the eight bytes at `offset` of a slice of `length` bytes, with zeros beyond its end. Not inlined, because it
/// is long and rarely used.
BUSBW_HOST_DEVICE_CALLED std::uint64_t read_in_pieces(const char* slice, std::int64_t offset, std::int64_t length,
                                                      int granule) {
  std::uint64_t value = 0;
  const std::int64_t end = offset + 8 < length ? offset + 8 : length;
  std::int64_t position = offset;
  // The largest unit that the granule permits reads all bytes. The smaller units then find none.
  if (granule >= 4) read_units<std::uint32_t>(slice, offset, end, position, value);
  if (granule >= 2) read_units<std::uint16_t>(slice, offset, end, position, value);
  read_units<std::uint8_t>(slice, offset, end, position, value);
  return value;
}

/// Writes the eight bytes of `value` at `offset`, without the bytes beyond `length`.
BUSBW_HOST_DEVICE_CALLED void write_in_pieces(char* slice, std::int64_t offset, std::int64_t length, int granule,
                                              std::uint64_t value) {
  const std::int64_t end = offset + 8 < length ? offset + 8 : length;
  std::int64_t position = offset;
  if (granule >= 4) write_units<std::uint32_t>(slice, offset, end, position, value);
  if (granule >= 2) write_units<std::uint16_t>(slice, offset, end, position, value);
  write_units<std::uint8_t>(slice, offset, end, position, value);
}

/// Returns the bytes of a slice. Negative if the buffer ends before the slice.
BUSBW_HOST_DEVICE std::int64_t length_of(const Slices& buffer, int slice) {
  const std::int64_t remaining = buffer.total - slice * buffer.stride;
  return remaining < buffer.length ? remaining : buffer.length;
}

}  // namespace slices

/// Returns a cell of a slice, with zeros beyond the end of the slice and in the place of the tag.
BUSBW_HOST_DEVICE Cell load_cell(const Slices& buffer, int slice, std::int64_t index) {
  const char* data = buffer.data + slice * buffer.stride;
  const std::int64_t length = slices::length_of(buffer, slice);
  const std::int64_t offset = offset_of_cell(index);
  const bool holds_tag = index % kCellsOfLine == kCellsOfLine - 1;
  Cell cell;
  if (buffer.granule == 8) {
    if (offset < length) cell.low = *reinterpret_cast<const std::uint64_t*>(data + offset);
    if (offset + 8 < length && !holds_tag) cell.high = *reinterpret_cast<const std::uint64_t*>(data + offset + 8);
  } else {
    cell.low = slices::read_in_pieces(data, offset, length, buffer.granule);
    if (!holds_tag) cell.high = slices::read_in_pieces(data, offset + 8, length, buffer.granule);
  }
  return cell;
}

/// Writes a cell, without the bytes beyond the end of its slice.
BUSBW_HOST_DEVICE void store_cell(const Slices& buffer, int slice, std::int64_t index, const Cell& cell) {
  char* data = buffer.data + slice * buffer.stride;
  const std::int64_t length = slices::length_of(buffer, slice);
  const std::int64_t offset = offset_of_cell(index);
  const bool holds_tag = index % kCellsOfLine == kCellsOfLine - 1;
  if (buffer.granule == 8) {
    if (offset < length) *reinterpret_cast<std::uint64_t*>(data + offset) = cell.low;
    if (offset + 8 < length && !holds_tag) *reinterpret_cast<std::uint64_t*>(data + offset + 8) = cell.high;
  } else {
    slices::write_in_pieces(data, offset, length, buffer.granule, cell.low);
    if (!holds_tag) slices::write_in_pieces(data, offset + 8, length, buffer.granule, cell.high);
  }
}

}  // namespace busbw::fastpath
