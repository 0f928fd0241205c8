#include "backends/host/rank_buffers.hpp"

#include <fmt/format.h>

#include <limits>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t all_bytes(int ranks, std::size_t buffer_bytes, std::size_t front_bytes) {
  const std::size_t buffers = 2 * static_cast<std::size_t>(ranks);
  if (buffer_bytes > (std::numeric_limits<std::size_t>::max() - front_bytes) / buffers - kPage) {
    throw EnvironmentError(
        fmt::format("{} buffers of {} bytes exceed the address space; use a smaller -e", buffers, buffer_bytes));
  }
  return front_bytes + buffers * RankBuffers::page_aligned(buffer_bytes);
}

}  // namespace

std::size_t RankBuffers::page_aligned(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

RankBuffers::RankBuffers(int ranks, std::size_t buffer_bytes, std::size_t front_bytes, Sharing sharing)
    : buffer_bytes_(buffer_bytes),
      front_bytes_(front_bytes),
      arena_(all_bytes(ranks, buffer_bytes, front_bytes), sharing) {}

std::span<std::byte> RankBuffers::buffer(int index) const {
  return {arena_.data() + front_bytes_ + static_cast<std::size_t>(index) * page_aligned(buffer_bytes_), buffer_bytes_};
}

}  // namespace busbw
