#pragma once
// What the ranks share, and where it lies in the arena: control blocks, channels, buffers.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/host/memory/channels.hpp"
#include "backends/host/rank_buffers.hpp"
#include "rendezvous/team/barrier.hpp"

namespace busbw {

/// Up to this many bytes a rank's data is copied to its control block, and one barrier does instead of two.
inline constexpr std::size_t kStagingBytes = 8192;

/// What the members of one communicator share.
struct GroupControl {
  Barrier barrier;
  /// The first element of a reduction that nobody has claimed yet.
  alignas(64) std::atomic<std::uint64_t> next_element{0};
};

/// What one rank shows to the others of its communicator.
struct RankControl {
  alignas(64) const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  /// Small data to send, in turns: see HostCommunicator::meet.
  alignas(64) std::array<std::array<std::byte, kStagingBytes>, 2> staging;
};

/// One per job. A rank is a member of one communicator at a time, so that its own control block, and its group's under
/// the group's first rank, are enough. All ranks here are ranks of the world.
class Workspace {
 public:
  /// Bytes beside the buffers.
  static std::size_t control_bytes(int ranks);

  Workspace(int ranks, std::size_t buffer_bytes, Sharing sharing);

  GroupControl& group(int first_rank) const { return groups_[first_rank]; }
  RankControl& rank(int rank) const { return ranks_[rank]; }
  const Channels& channels() const { return channels_; }
  std::span<std::byte> send_buffer(int rank) const { return buffers_.send_buffer(rank); }
  std::span<std::byte> recv_buffer(int rank) const { return buffers_.recv_buffer(rank); }

 private:
  RankBuffers buffers_;
  GroupControl* groups_;
  RankControl* ranks_;
  Channels channels_;
};

}  // namespace busbw
