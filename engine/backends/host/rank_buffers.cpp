// Divides one mapping into two page-aligned buffers for each rank.
#include "backends/host/rank_buffers.hpp"

#include <fmt/format.h>

#include <limits>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t total_bytes(int ranks, std::size_t buffer_bytes, std::size_t front_bytes) {
  const std::size_t buffer_count = 2 * static_cast<std::size_t>(ranks);
  const std::size_t address_space = std::numeric_limits<std::size_t>::max() - front_bytes;
  const std::size_t max_buffer_bytes = address_space / buffer_count - kPageBytes;  // with space for rounding up
  if (buffer_bytes > max_buffer_bytes) {
    throw EnvironmentError(
        fmt::format("{} buffers of {} bytes exceed the address space; use a smaller -e", buffer_count, buffer_bytes));
  }
  return front_bytes + buffer_count * RankBuffers::page_aligned(buffer_bytes);
}

}  // namespace

std::size_t RankBuffers::page_aligned(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

RankBuffers::RankBuffers(int ranks, std::size_t buffer_bytes, std::size_t front_bytes, Sharing sharing)
    : buffer_bytes_(buffer_bytes),
      front_bytes_(front_bytes),
      arena_(total_bytes(ranks, buffer_bytes, front_bytes), sharing) {}

std::span<std::byte> RankBuffers::buffer(int index) const {
  return {arena_.data() + front_bytes_ + static_cast<std::size_t>(index) * page_aligned(buffer_bytes_), buffer_bytes_};
}

}  // namespace busbw
