#pragma once
// Layout of the memory that the ranks of one machine share: control blocks, channels, send and receive buffers.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/host/memory/channels.hpp"
#include "backends/host/rank_buffers.hpp"
#include "rendezvous/team/barrier.hpp"

namespace busbw {

/// If all ranks send at most this much, each rank copies its data to its control block, and peers read the copy. The
/// rank may then reuse its buffers at once, so a collective needs one barrier instead of two.
inline constexpr std::size_t kStagingBytes = 8192;

/// State that the ranks of one communicator share.
struct GroupControl {
  Barrier barrier;
  /// Index of the first element of a reduction that no rank has claimed. Ranks reduce the elements that they claim.
  alignas(64) std::atomic<std::uint64_t> next_element{0};
};

/// State of one rank that its peers in the communicator read.
struct RankControl {
  alignas(64) const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  /// Small data to send, in two alternating areas: see SharedMemoryCommunicator::enter_collective.
  alignas(64) std::array<std::array<std::byte, kStagingBytes>, 2> staging;
};

/// Shared memory of a job. A `rank` is a world rank. A rank with several communicators has each of them in another
/// layer. The first one is in layer 0; a communicator that was split from it, for example, is in layer 1. So a rank
/// needs one control block per layer. In each layer, a communicator with first rank r in the world has GroupControl
/// number r.
class Workspace {
 public:
  /// Bytes that `ranks` ranks need in addition to their buffers: control blocks and channels.
  static std::size_t control_and_channel_bytes(int ranks, int layers = 1, int concurrent_layers = 1);

  /// `concurrent_layers`: number of layers, from layer 0 on, that may run operations at the same time. Each of these
  /// layers has channels of its own. Later layers use the channels of the last concurrent layer.
  Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing, int layers = 1, int concurrent_layers = 1);

  GroupControl& group_control(int first_rank, int layer = 0) const {
    return group_controls_[layer * rank_count_ + first_rank];
  }
  RankControl& rank_control(int rank, int layer = 0) const { return rank_controls_[layer * rank_count_ + rank]; }
  const Channels& channels(int layer = 0) const {
    return channels_[std::min(static_cast<std::size_t>(layer), channels_.size() - 1)];
  }
  std::span<std::byte> send_buffer(int rank) const { return buffers_.send_buffer(rank); }
  std::span<std::byte> recv_buffer(int rank) const { return buffers_.recv_buffer(rank); }

 private:
  int rank_count_;
  RankBuffers buffers_;
  GroupControl* group_controls_;
  RankControl* rank_controls_;
  std::vector<Channels> channels_;
};

}  // namespace busbw
