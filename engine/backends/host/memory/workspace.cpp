// Places the control blocks and channels at the front of the ranks' shared memory.
#include "backends/host/memory/workspace.hpp"

#include <new>

namespace busbw {
namespace {

std::size_t group_controls_bytes(int controls) {
  return RankBuffers::page_aligned(static_cast<std::size_t>(controls) * sizeof(GroupControl));
}
std::size_t rank_controls_bytes(int controls) {
  return RankBuffers::page_aligned(static_cast<std::size_t>(controls) * sizeof(RankControl));
}

}  // namespace

std::size_t Workspace::control_bytes(int ranks, int layers, int concurrent_layers) {
  return group_controls_bytes(layers * ranks) + rank_controls_bytes(layers * ranks) +
         static_cast<std::size_t>(concurrent_layers) * RankBuffers::page_aligned(Channels::bytes(ranks));
}

Workspace::Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing, int layers, int concurrent_layers)
    : rank_count_(ranks),
      buffers_(ranks, buffer_bytes, control_bytes(ranks, layers, concurrent_layers), sharing),
      groups_(reinterpret_cast<GroupControl*>(buffers_.front())),
      ranks_(reinterpret_cast<RankControl*>(buffers_.front() + group_controls_bytes(layers * ranks))) {
  std::byte* memory = buffers_.front() + group_controls_bytes(layers * ranks) + rank_controls_bytes(layers * ranks);
  for (int layer = 0; layer < concurrent_layers; ++layer) {
    channels_.emplace_back(memory, ranks);
    memory += RankBuffers::page_aligned(Channels::bytes(ranks));
  }
  for (int i = 0; i < layers * ranks; ++i) {
    new (groups_ + i) GroupControl;
    new (ranks_ + i) RankControl;
  }
}

}  // namespace busbw
