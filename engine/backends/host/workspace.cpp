#include "backends/host/workspace.hpp"

#include <fmt/format.h>

#include <limits>
#include <new>

#include "support/error.hpp"

namespace busbw {
namespace {

/// Buffers start on pages of their own.
constexpr std::size_t kPage = 4096;

std::size_t page_aligned(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t groups_bytes(int ranks) { return page_aligned(static_cast<std::size_t>(ranks) * sizeof(GroupControl)); }
std::size_t ranks_bytes(int ranks) { return page_aligned(static_cast<std::size_t>(ranks) * sizeof(RankControl)); }

std::size_t all_bytes(int ranks, std::size_t buffer_bytes) {
  const std::size_t buffers = 2 * static_cast<std::size_t>(ranks);
  const std::size_t control = Workspace::control_bytes(ranks);
  if (buffer_bytes > (std::numeric_limits<std::size_t>::max() - control) / buffers - kPage) {
    throw EnvironmentError(
        fmt::format("{} buffers of {} bytes are more than can be addressed; use a smaller -e", buffers, buffer_bytes));
  }
  return control + buffers * page_aligned(buffer_bytes);
}

}  // namespace

std::size_t Workspace::control_bytes(int ranks) {
  return groups_bytes(ranks) + ranks_bytes(ranks) + page_aligned(Channels::bytes(ranks));
}

Workspace::Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing)
    : buffer_bytes_(buffer_bytes),
      arena_(all_bytes(ranks, buffer_bytes), sharing),
      groups_(reinterpret_cast<GroupControl*>(arena_.data())),
      ranks_(reinterpret_cast<RankControl*>(arena_.data() + groups_bytes(ranks))),
      channels_(arena_.data() + groups_bytes(ranks) + ranks_bytes(ranks), ranks),
      buffers_(arena_.data() + control_bytes(ranks)) {
  for (int i = 0; i < ranks; ++i) {
    new (groups_ + i) GroupControl;
    new (ranks_ + i) RankControl;
  }
}

std::span<std::byte> Workspace::buffer(int index) const {
  return {buffers_ + static_cast<std::size_t>(index) * page_aligned(buffer_bytes_), buffer_bytes_};
}

}  // namespace busbw
