// Point-to-point transfers through two slots per channel. See exchange_chunks for the order of steps.
#include "backends/host/memory/channels.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "backends/cache_line.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxChunkBytes = std::size_t{64} << 10;
constexpr std::size_t kMinChunkBytes = 256;
/// Target size of the slots of all channels together. Many ranks exceed it, because chunks have a minimum size.
constexpr std::size_t kAllSlotsBytes = std::size_t{32} << 20;

std::size_t channel_count(int ranks) { return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks); }

/// Bytes of a transfer that belong to chunk number `chunk`. Empty after the end of the transfer.
std::span<std::byte> chunk_of(const Transfer& transfer, std::size_t element_bytes, std::size_t chunk,
                              std::size_t chunk_bytes) {
  const std::size_t bytes = transfer.count * element_bytes;
  const std::size_t first = std::min(chunk * chunk_bytes, bytes);
  if (first == bytes) return {};
  return {transfer.data + first, std::min(chunk_bytes, bytes - first)};
}

}  // namespace

std::size_t Channels::chunk_bytes(int ranks) {
  const std::size_t target_bytes = kAllSlotsBytes / (ChannelCounters::kSlots * channel_count(ranks));
  return std::clamp(target_bytes / kCacheLineBytes * kCacheLineBytes, kMinChunkBytes, kMaxChunkBytes);
}

std::size_t Channels::bytes(int ranks) {
  return channel_count(ranks) * (sizeof(ChannelCounters) + ChannelCounters::kSlots * chunk_bytes(ranks));
}

Channels::Channels(std::byte* memory, int ranks)
    : ranks_(ranks),
      chunk_bytes_(chunk_bytes(ranks)),
      counters_(reinterpret_cast<ChannelCounters*>(memory)),
      slots_(memory + channel_count(ranks) * sizeof(ChannelCounters)) {
  for (std::size_t i = 0; i < channel_count(ranks); ++i) new (counters_ + i) ChannelCounters;
}

std::size_t Channels::index(int source, int destination) const {
  return static_cast<std::size_t>(source) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(destination);
}

ChannelCounters& Channels::counters(int source, int destination) const { return counters_[index(source, destination)]; }

std::byte* Channels::slot(int source, int destination, std::uint64_t chunk) const {
  return slots_ +
         (index(source, destination) * ChannelCounters::kSlots + chunk % ChannelCounters::kSlots) * chunk_bytes_;
}

// The exchange runs in lockstep. Every rank stages chunk 0 of all its sends, takes chunk 0 of all its receives, and
// continues with chunk 1.
// - In-place exchanges are correct: chunk k of a buffer is overwritten only after it was staged.
// - Deadlock is impossible. In a deadlock, all unfinished ranks wait. Let R be the one with the least progress. If R
//   waits to take chunk k, its sender has not staged chunk k. If R waits to stage chunk k, both slots are full, so its
//   receiver has not taken chunk k - 2. In both cases, this peer is unfinished and has made less progress than R, which
//   contradicts the choice of R.
// Each send needs a receive of the same count, as in NCCL.
void exchange_chunks(const Channels& channels, const std::vector<int>& world_ranks, int rank,
                     std::span<const Transfer> sends, std::span<const Transfer> recvs, std::size_t element_bytes,
                     const Team& team) {
  const int own_world_rank = world_ranks[static_cast<std::size_t>(rank)];
  const std::size_t chunk_bytes = channels.chunk_bytes();
  std::size_t max_bytes = 0;
  for (const Transfer& send : sends) max_bytes = std::max(max_bytes, send.count * element_bytes);
  for (const Transfer& recv : recvs) max_bytes = std::max(max_bytes, recv.count * element_bytes);

  // `chunk` counts the chunks of this exchange, `channel_chunk` all chunks that ever went through the channel.
  for (std::size_t chunk = 0; chunk * chunk_bytes < max_bytes; ++chunk) {
    for (const Transfer& send : sends) {
      const auto data = chunk_of(send, element_bytes, chunk, chunk_bytes);
      if (data.empty()) continue;
      const int peer_world_rank = world_ranks[static_cast<std::size_t>(send.peer)];
      ChannelCounters& counters = channels.counters(own_world_rank, peer_world_rank);
      const std::uint64_t channel_chunk = counters.staged.load(std::memory_order_relaxed);
      wait_until(team, [&] {
        return channel_chunk - counters.taken.load(std::memory_order_acquire) < ChannelCounters::kSlots;
      });
      std::memcpy(channels.slot(own_world_rank, peer_world_rank, channel_chunk), data.data(), data.size());
      counters.staged.store(channel_chunk + 1, std::memory_order_release);
    }
    for (const Transfer& recv : recvs) {
      const auto data = chunk_of(recv, element_bytes, chunk, chunk_bytes);
      if (data.empty()) continue;
      const int peer_world_rank = world_ranks[static_cast<std::size_t>(recv.peer)];
      ChannelCounters& counters = channels.counters(peer_world_rank, own_world_rank);
      const std::uint64_t channel_chunk = counters.taken.load(std::memory_order_relaxed);
      wait_until(team, [&] { return counters.staged.load(std::memory_order_acquire) != channel_chunk; });
      std::memcpy(data.data(), channels.slot(peer_world_rank, own_world_rank, channel_chunk), data.size());
      counters.taken.store(channel_chunk + 1, std::memory_order_release);
    }
  }
}

}  // namespace busbw
