// Each collective has the same steps. enter_collective publishes the rank's addresses or stages its data. Then the rank
// reads from its peers. leave_collective waits until the peers have finished.
#include "backends/host/memory/shared_memory_communicator.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

/// Maximum bytes of a reduction that a rank claims at once. Large enough for hardware prefetching, small enough that a
/// rank with its own core takes work from ranks that share one.
constexpr std::size_t kMaxClaimBytes = std::size_t{64} << 10;
/// Minimum bytes of a claim, so that two ranks do not share a cache line and claims are rare.
constexpr std::size_t kMinClaimBytes = std::size_t{2} << 10;

}  // namespace

SharedMemoryCommunicator::SharedMemoryCommunicator(const Workspace& workspace, const Team& world,
                                                   std::vector<int> world_ranks, int rank, std::size_t cache_bytes,
                                                   int layer)
    : HostMemoryCommunicator(std::move(world_ranks), rank),
      workspace_(workspace),
      world_(world),
      cache_bytes_(cache_bytes),
      layer_(layer),
      sources_(world_ranks_.size()),
      destinations_(world_ranks_.size()) {}

// Small data is copied to the rank's staging area; peers read large data from the send buffer. Staged operations need
// only one barrier: no rank reads another rank's buffers, and each rank has two staging areas that it uses in turn.
// Staged operations n and n + 2 use the same area. A rank that passed the barrier of operation n + 1 knows that all
// ranks have finished operation n, so it may overwrite the area.
void SharedMemoryCommunicator::enter_collective(const std::byte* send, std::size_t send_bytes, std::byte* recv,
                                                std::size_t max_bytes) {
  staged_ = max_bytes <= kStagingBytes;
  RankControl& own_control = rank_control(rank_);
  if (staged_) {
    staging_index_ = 1 - staging_index_;
    copy_bytes(own_control.staging[staging_index_].data(), send, send_bytes);
  } else {
    own_control.send = send;
    own_control.recv = recv;
    if (rank_ == 0) group_control().next_element.store(0, std::memory_order_relaxed);
  }
  barrier();
  for (int peer = 0; peer < size(); ++peer) {
    const RankControl& peer_control = rank_control(peer);
    sources_[static_cast<std::size_t>(peer)] =
        staged_ ? peer_control.staging[staging_index_].data() : peer_control.send;
    destinations_[static_cast<std::size_t>(peer)] = staged_ ? nullptr : peer_control.recv;
  }
}

void SharedMemoryCommunicator::leave_collective() {
  if (!staged_) barrier();
}

// Ranks claim ranges of elements from a shared counter. Only the rank that claimed an element reads and writes it, so
// in-place operation is correct.
void SharedMemoryCommunicator::reduce_cooperatively(std::span<std::byte* const> destinations, std::size_t count,
                                                    Dtype dtype, Redop redop, WriteMode write_mode) {
  const std::size_t bytes = count * size_bytes(dtype);
  // Two or more claims for each rank, if kMinClaimBytes allows it. In whole cache lines.
  const std::size_t half_share_bytes = bytes / (2 * world_ranks_.size()) / 64 * 64;
  const std::size_t claim_elements = std::clamp(half_share_bytes, kMinClaimBytes, kMaxClaimBytes) / size_bytes(dtype);
  auto& next_element = group_control().next_element;
  for (;;) {
    const std::size_t first = next_element.fetch_add(claim_elements, std::memory_order_relaxed);
    if (first >= count) return;
    reduce_elements(sources_, destinations, first, std::min(claim_elements, count - first), dtype, redop, write_mode);
  }
}

// Cached writes are better in two cases. In place, the rank has just read the cache lines that it writes. If all
// touched data fits into the cache, the next reader finds the result there.
WriteMode SharedMemoryCommunicator::write_mode_for(const std::byte* send, const std::byte* recv,
                                                   std::size_t touched_bytes) const {
  const bool is_in_place = send == recv;
  const bool fits_cache = touched_bytes <= cache_bytes_;
  return is_in_place || fits_cache ? WriteMode::cached : WriteMode::streamed;
}

void SharedMemoryCommunicator::all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
                                          Redop redop) {
  const std::size_t bytes = count * size_bytes(dtype);
  enter_collective(send, bytes, recv, bytes);
  if (staged_) {
    reduce_elements(sources_, {&recv, 1}, 0, count, dtype, redop, WriteMode::cached);
  } else {
    const std::size_t touched_bytes = 2 * bytes * world_ranks_.size();  // sent and received data of all ranks
    reduce_cooperatively(destinations_, count, dtype, redop, write_mode_for(send, recv, touched_bytes));
  }
  leave_collective();
}

void SharedMemoryCommunicator::reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
                                      Redop redop, int root) {
  const std::size_t bytes = count * size_bytes(dtype);
  enter_collective(send, bytes, recv, bytes);
  if (!staged_) {
    const std::span destination(&destinations_[static_cast<std::size_t>(root)], 1);
    reduce_cooperatively(destination, count, dtype, redop, WriteMode::cached);
  } else if (rank_ == root) {
    reduce_elements(sources_, {&recv, 1}, 0, count, dtype, redop, WriteMode::cached);
  }
  leave_collective();
}

void SharedMemoryCommunicator::reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count,
                                              Dtype dtype, Redop redop) {
  const std::size_t bytes = recv_count * size_bytes(dtype);
  const std::size_t send_bytes = bytes * world_ranks_.size();
  enter_collective(send, send_bytes, recv, send_bytes);
  // In place, `recv` is this rank's segment of `send`, and only this rank reads it.
  for (const std::byte*& source : sources_) source += bytes * static_cast<std::size_t>(rank_);
  reduce_elements(sources_, {&recv, 1}, 0, recv_count, dtype, redop, WriteMode::cached);
  leave_collective();
}

void SharedMemoryCommunicator::collect_segments(const std::byte* send, std::byte* recv, std::size_t bytes) {
  for (std::size_t peer = 0; peer < world_ranks_.size(); ++peer) {
    // In place, this rank's segment is already in its place. It must not be written, because peers read it.
    if (recv + peer * bytes != send) copy_bytes(recv + peer * bytes, sources_[peer], bytes);
  }
}

void SharedMemoryCommunicator::all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) {
  const std::size_t bytes = send_count * size_bytes(dtype);
  enter_collective(send, bytes, recv, bytes);
  collect_segments(send, recv, bytes);
  leave_collective();
}

void SharedMemoryCommunicator::broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
                                         int root) {
  const std::size_t bytes = count * size_bytes(dtype);
  enter_collective(send, rank_ == root ? bytes : 0, recv, bytes);
  const bool has_result_in_place = rank_ == root && send == recv;
  if (!has_result_in_place) copy_bytes(recv, sources_[static_cast<std::size_t>(root)], bytes);
  leave_collective();
}

void SharedMemoryCommunicator::gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype,
                                      int root) {
  const std::size_t bytes = send_count * size_bytes(dtype);
  enter_collective(send, bytes, recv, bytes);
  if (rank_ == root) collect_segments(send, recv, bytes);
  leave_collective();
}

void SharedMemoryCommunicator::scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                       int root) {
  const std::size_t bytes = recv_count * size_bytes(dtype);
  const std::size_t send_bytes = bytes * world_ranks_.size();
  enter_collective(send, rank_ == root ? send_bytes : 0, recv, send_bytes);
  copy_bytes(recv, sources_[static_cast<std::size_t>(root)] + static_cast<std::size_t>(rank_) * bytes, bytes);
  leave_collective();
}

void SharedMemoryCommunicator::alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) {
  const std::size_t bytes = count * size_bytes(dtype);
  if (send == recv) {
    // In place, direct copies would overwrite data that peers have not read. The channels hold copies.
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < size(); ++peer)
      transfers.push_back({peer, recv + static_cast<std::size_t>(peer) * bytes, count});
    exchange(transfers, transfers, dtype);
    return;
  }
  const std::size_t all_bytes = bytes * world_ranks_.size();
  enter_collective(send, all_bytes, recv, all_bytes);
  for (std::size_t peer = 0; peer < world_ranks_.size(); ++peer) {
    copy_bytes(recv + peer * bytes, sources_[peer] + static_cast<std::size_t>(rank_) * bytes, bytes);
  }
  leave_collective();
}

void SharedMemoryCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  exchange_chunks(workspace_.channels(layer_), world_ranks_, rank_, sends, recvs, size_bytes(dtype), world_);
}

void SharedMemoryCommunicator::put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype) {
  const Channels& channels = workspace_.channels();  // of layer 0: only a rank's first communicator has puts (-H)
  for (const Put& put : puts) {
    const int peer = world_rank(put.peer);
    const auto offset = put.destination - recv_buffer().data();
    copy_bytes(workspace_.recv_buffer(peer).data() + offset, put.data, put.count * size_bytes(dtype));
    channels.counters(world_rank(rank_), peer).signaled.fetch_add(1, std::memory_order_release);
  }
  for (const AwaitedPut& put : awaited) {
    ChannelCounters& counters = channels.counters(world_rank(put.source), world_rank(rank_));
    ++counters.awaited;
    wait_until(world_, [&] { return counters.signaled.load(std::memory_order_acquire) >= counters.awaited; });
  }
}

}  // namespace busbw
