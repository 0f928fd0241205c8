#pragma once
// Point to point: one channel for every ordered pair of ranks, through which data is passed in chunks.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// The counters of one channel; they lie in shared memory. A chunk is staged by the sender and taken by the receiver;
/// `staged - taken` chunks wait, at most kSlots. They never go back, so a channel outlives its communicators.
struct ChannelCounters {
  static constexpr std::uint64_t kSlots = 2;
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  alignas(64) std::atomic<std::uint64_t> staged{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
};

/// All channels between `ranks` ranks, in memory that belongs to someone else.
class Channels {
 public:
  /// Bytes that the channels of `ranks` ranks take.
  static std::size_t bytes(int ranks);
  /// Bytes of one chunk: fewer with more ranks, so that ranks * ranks channels stay modest.
  static std::size_t chunk_bytes(int ranks);

  /// Makes the channels in `memory`, Channels::bytes(ranks) long and aligned to 64 bytes.
  Channels(std::byte* memory, int ranks);

  ChannelCounters& counters(int source, int destination) const;
  std::byte* slot(int source, int destination, std::uint64_t chunk) const;
  std::size_t chunk_bytes() const { return chunk_bytes_; }

 private:
  std::size_t index(int source, int destination) const;

  int ranks_;
  std::size_t chunk_bytes_;
  ChannelCounters* counters_;
  std::byte* slots_;
};

/// Performs this rank's part of an exchange. `members` gives the channel rank of each rank of the communicator, `rank`
/// is this one's in the communicator. What is received may lie where what is sent lies, if it starts at the same
/// place: no chunk is overwritten before it was staged. Throws Aborted once the team is.
void exchange_chunks(const Channels& channels, const std::vector<int>& members, int rank,
                     std::span<const Transfer> sends, std::span<const Transfer> recvs, std::size_t element_bytes,
                     const Team& team);

}  // namespace busbw
