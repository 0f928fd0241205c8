// Places the control blocks and channels at the front of the ranks' shared memory.
#include "backends/host/memory/workspace.hpp"

#include <new>

namespace busbw {
namespace {

/// Bytes of an array of `count` control blocks, in whole pages.
template <class Control>
std::size_t array_bytes(int count) {
  return RankBuffers::page_aligned(static_cast<std::size_t>(count) * sizeof(Control));
}

}  // namespace

std::size_t Workspace::control_and_channel_bytes(int ranks, int layers, int concurrent_layers) {
  return array_bytes<GroupControl>(layers * ranks) + array_bytes<RankControl>(layers * ranks) +
         static_cast<std::size_t>(concurrent_layers) * RankBuffers::page_aligned(Channels::bytes(ranks));
}

Workspace::Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing, int layers, int concurrent_layers)
    : rank_count_(ranks),
      buffers_(ranks, buffer_bytes, control_and_channel_bytes(ranks, layers, concurrent_layers), sharing),
      group_controls_(reinterpret_cast<GroupControl*>(buffers_.front())),
      rank_controls_(reinterpret_cast<RankControl*>(buffers_.front() + array_bytes<GroupControl>(layers * ranks))) {
  for (int i = 0; i < layers * ranks; ++i) {
    new (group_controls_ + i) GroupControl;
    new (rank_controls_ + i) RankControl;
  }
  std::byte* memory = reinterpret_cast<std::byte*>(rank_controls_) + array_bytes<RankControl>(layers * ranks);
  for (int layer = 0; layer < concurrent_layers; ++layer) {
    channels_.emplace_back(memory, ranks);
    memory += RankBuffers::page_aligned(Channels::bytes(ranks));
  }
}

}  // namespace busbw
