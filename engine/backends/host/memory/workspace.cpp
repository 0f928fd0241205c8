#include "backends/host/memory/workspace.hpp"

#include <new>

namespace busbw {
namespace {

std::size_t group_controls_bytes(int ranks) {
  return RankBuffers::page_aligned(static_cast<std::size_t>(ranks) * sizeof(GroupControl));
}
std::size_t rank_controls_bytes(int ranks) {
  return RankBuffers::page_aligned(static_cast<std::size_t>(ranks) * sizeof(RankControl));
}

}  // namespace

std::size_t Workspace::control_bytes(int ranks) {
  return group_controls_bytes(ranks) + rank_controls_bytes(ranks) + RankBuffers::page_aligned(Channels::bytes(ranks));
}

Workspace::Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing)
    : buffers_(ranks, buffer_bytes, control_bytes(ranks), sharing),
      groups_(reinterpret_cast<GroupControl*>(buffers_.front())),
      ranks_(reinterpret_cast<RankControl*>(buffers_.front() + group_controls_bytes(ranks))),
      channels_(buffers_.front() + group_controls_bytes(ranks) + rank_controls_bytes(ranks), ranks) {
  for (int i = 0; i < ranks; ++i) {
    new (groups_ + i) GroupControl;
    new (ranks_ + i) RankControl;
  }
}

}  // namespace busbw
