#pragma once
// Point-to-point transfers over shared memory. Every ordered pair of ranks has a channel of two slots. Data moves
// through the slots in chunks: the sender stages a chunk in a slot, the receiver takes it. A put (Communicator::put)
// writes directly into the receive buffer, and the channel only counts its signal.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Counters of one channel, in shared memory. At most kSlots chunks are staged and not yet taken. The counters only
/// grow, so that later communicators can reuse the channel. The sender writes the first cache line, the receiver the
/// second.
struct ChannelCounters {
  static constexpr std::uint64_t kSlots = 2;
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  alignas(64) std::atomic<std::uint64_t> staged{0};  // chunks
  std::atomic<std::uint64_t> signaled{0};            // puts of the sender
  alignas(64) std::atomic<std::uint64_t> taken{0};   // chunks
  std::uint64_t awaited = 0;                         // puts that the receiver has awaited, or awaits now
};

/// All channels between `ranks` ranks, in memory owned by the caller.
class Channels {
 public:
  /// Bytes that the channels of `ranks` ranks need.
  static std::size_t bytes(int ranks);
  /// Bytes of one chunk. More ranks get smaller chunks, because the number of channels is ranks * ranks.
  static std::size_t chunk_bytes(int ranks);

  /// Initializes the channels in `memory`, which has Channels::bytes(ranks) bytes and is aligned to 64 bytes.
  Channels(std::byte* memory, int ranks);

  ChannelCounters& counters(int source, int destination) const;
  /// Slot of a chunk. `chunk` numbers all chunks that ever went through the channel, as its counters do.
  std::byte* slot(int source, int destination, std::uint64_t chunk) const;
  std::size_t chunk_bytes() const { return chunk_bytes_; }

 private:
  std::size_t index(int source, int destination) const;

  int ranks_;
  std::size_t chunk_bytes_;
  ChannelCounters* counters_;
  std::byte* slots_;
};

/// Runs this rank's sends and receives of an exchange. `world_ranks`: world rank of each rank of the communicator;
/// channels are between world ranks. `rank`: this rank in the communicator. A receive may overlap a send if both start
/// at the same address: no chunk is overwritten before it was staged. Throws JobAborted if the team is aborted.
void exchange_chunks(const Channels& channels, const std::vector<int>& world_ranks, int rank,
                     std::span<const Transfer> sends, std::span<const Transfer> recvs, std::size_t element_bytes,
                     const Team& team);

}  // namespace busbw
