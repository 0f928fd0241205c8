// Algorithms of the collectives over TCP. All-reduce, reduce, all-gather and broadcast have two algorithms: one with
// few steps for small data (doubling, tree, reduction at the root), and one with little traffic per rank for large data
// (ring, chain, shares). The other collectives have one algorithm for all sizes. A share is the part of an array that
// belongs to one rank. A slot is temporary memory for data from one rank.
#include "backends/host/sockets/socket_communicator.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/cache_line.hpp"
#include "backends/host/reduce_kernel.hpp"
#include "common/os/ticker.hpp"

namespace busbw {
namespace {

/// Maximum sum of the bytes of all ranks for which the number of steps matters more than the number of bytes.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
/// Maximum bytes of a broadcast along a tree, in which ranks forward data as a whole. Larger data goes along a chain,
/// in which ranks forward data while it arrives.
constexpr std::size_t kMaxTreeBytes = std::size_t{32} << 10;
/// Maximum bytes received from a rank before they are reduced, so that they are still in the cache.
constexpr std::size_t kMaxSlotBytes = std::size_t{128} << 10;

/// Time limit of `reconnect`, as a multiple of the limit of give_up_peers_after. That limit is at most 0.3 of -T
/// (kFlowLimitShare). SocketMesh::reconnect may take 1.5 times its limit: 2 * 0.3 * 1.5 = 0.9 of -T.
constexpr double kConnectLimits = 2;

std::size_t rounded_up(std::size_t number, std::size_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

/// True if the memory of both transfers overlaps.
bool has_overlap(const Transfer& a, const Transfer& b, std::size_t element_bytes) {
  return std::less{}(a.data, b.data + b.count * element_bytes) && std::less{}(b.data, a.data + a.count * element_bytes);
}

}  // namespace

std::size_t SocketCommunicator::RankShares::first_byte(int rank) const {
  return std::min(static_cast<std::size_t>(rank) * per_rank, count) * element_bytes;
}

SocketCommunicator::SocketCommunicator(SocketMesh mesh, const Team& world, std::span<std::byte> send_buffer,
                                       std::span<std::byte> recv_buffer)
    : HostMemoryCommunicator(mesh.world_ranks(), mesh.rank()),
      mesh_(std::move(mesh)),
      send_buffer_(send_buffer),
      recv_buffer_(recv_buffer),
      flows_(mesh_, world),
      work_(std::max(kWorkBytes, world_ranks_.size() * kCacheLineBytes)),
      slot_bytes_(std::clamp(kWorkBytes / world_ranks_.size() / kCacheLineBytes * kCacheLineBytes, kCacheLineBytes,
                             kMaxSlotBytes)),
      source_addresses_(world_ranks_.size()) {}

SocketCommunicator::RankShares SocketCommunicator::even_shares(std::size_t count, std::size_t element_bytes) const {
  // A share starts on a cache line if its array does.
  const std::size_t even_count = (count + world_ranks_.size() - 1) / world_ranks_.size();
  return {count, rounded_up(even_count, kCacheLineBytes / element_bytes), element_bytes};
}

void SocketCommunicator::reduce_sources(std::span<const std::byte* const> sources, std::byte* result, std::size_t count,
                                        Dtype dtype, Redop redop) {
  reduce_elements(sources, {&result, 1}, 0, count, dtype, redop, WriteMode::cached);
}

// Sends each peer this rank's data for the peer's share. Receives all peers' data for the own share, slot by slot.
// The traffic equals that of a ring, but values are rounded only once, and averages and scalars are applied only once.
void SocketCommunicator::reduce_own_share(const std::byte* send, std::byte* result, const RankShares& shares,
                                          Dtype dtype, Redop redop) {
  for (int distance = 1; distance < size(); ++distance) {
    const int to = rank_after(distance);
    flows_.send(to, send + shares.first_byte(to), shares.bytes(to));
  }
  const std::byte* const own_data = send + shares.first_byte(rank_);
  const std::size_t share_bytes = shares.bytes(rank_);
  for (std::size_t offset = 0; offset < share_bytes; offset += slot_bytes_) {
    const std::size_t step_bytes = std::min(slot_bytes_, share_bytes - offset);
    for (int distance = 1; distance < size(); ++distance) {
      const int from = rank_after(distance);
      source_addresses_[static_cast<std::size_t>(from)] = slot(from);
      flows_.receive(from, slot(from), step_bytes);
    }
    source_addresses_[static_cast<std::size_t>(rank_)] = own_data + offset;
    flows_.finish_receives();
    reduce_sources(source_addresses_, result + offset, step_bytes / shares.element_bytes, dtype, redop);
  }
}

void SocketCommunicator::gather_shares(std::byte* all, const RankShares& shares) {
  if (shares.count * shares.element_bytes <= kSmallBytes) {
    all_gather_doubling(all, shares);
  } else {
    all_gather_ring(all, shares);
  }
}

// Before each step, a rank holds `held_shares` shares: its own and those of the ranks after it. Rank 0 follows the last
// rank. The rank at distance `held_shares` after this one holds the shares that come next, and sends them to it. This
// rank sends the shares that it holds to the rank at the same distance before it. Each step doubles the number of held
// shares, until a rank holds all; the last step moves only the missing shares.
void SocketCommunicator::all_gather_doubling(std::byte* all, const RankShares& shares) {
  // Calls `transfer(data, bytes)` for the shares of `rank_count` ranks from `first_rank` on: two ranges if they wrap.
  const auto transfer_shares = [&](int first_rank, int rank_count, const auto& transfer) {
    const int end_rank = first_rank + rank_count;
    const auto transfer_range = [&](int first, int end) {
      transfer(all + shares.first_byte(first), shares.first_byte(end) - shares.first_byte(first));
    };
    transfer_range(first_rank, std::min(end_rank, size()));
    if (end_rank > size()) transfer_range(0, end_rank - size());
  };
  for (int held_shares = 1; held_shares < size(); held_shares *= 2) {
    const int moved_shares = std::min(held_shares, size() - held_shares);
    const int to = rank_after(size() - held_shares);
    const int from = rank_after(held_shares);
    transfer_shares(rank_, moved_shares, [&](std::byte* data, std::size_t bytes) { flows_.send(to, data, bytes); });
    transfer_shares(from, moved_shares, [&](std::byte* data, std::size_t bytes) { flows_.receive(from, data, bytes); });
    flows_.finish();
  }
}

// Shares travel around the ring: each rank forwards data while it receives it.
void SocketCommunicator::all_gather_ring(std::byte* all, const RankShares& shares) {
  const int next = rank_after(1);
  const int previous = rank_after(size() - 1);
  flows_.send(next, all + shares.first_byte(rank_), shares.bytes(rank_));
  for (int distance = 1; distance < size(); ++distance) {
    const int owner = rank_after(size() - distance);
    const bool is_owned_by_next = owner == next;  // so the next rank has this share already
    std::byte* const share = all + shares.first_byte(owner);
    const auto flow = flows_.receive(previous, share, shares.bytes(owner));
    if (!is_owned_by_next) flows_.forward(next, share, shares.bytes(owner), flow);
  }
  flows_.finish();
}

// Binomial tree. A rank's position is its distance from the root, modulo the number of ranks. The parent of a position
// is the position without its lowest set bit. Each rank receives from its parent and sends to its children, the
// farthest first.
void SocketCommunicator::broadcast_tree(std::byte* data, std::size_t bytes, int root) {
  const int own_position = (rank_ - root + size()) % size();
  const auto rank_at = [&](int position) { return (position + root) % size(); };
  int lowest_set_bit = 1;  // for the root, which has no set bit: the first power of two beyond all positions
  while (lowest_set_bit < size() && (own_position & lowest_set_bit) == 0) lowest_set_bit *= 2;
  if (own_position != 0) {
    flows_.receive(rank_at(own_position - lowest_set_bit), data, bytes);
    flows_.finish_receives();
  }
  for (int bit = lowest_set_bit / 2; bit > 0; bit /= 2)
    if (own_position + bit < size()) flows_.send(rank_at(own_position + bit), data, bytes);
  flows_.finish();
}

// Data travels from the root to the next rank, and so on: each rank forwards data while it receives it.
void SocketCommunicator::broadcast_chain(std::byte* data, std::size_t bytes, int root) {
  const int next = rank_after(1);
  if (rank_ == root) {
    flows_.send(next, data, bytes);
  } else {
    const auto flow = flows_.receive(rank_after(size() - 1), data, bytes);
    if (next != root) flows_.forward(next, data, bytes, flow);
  }
  flows_.finish();
}

void SocketCommunicator::all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
                                    Redop redop) {
  const std::size_t element_bytes = size_bytes(dtype);
  const std::size_t bytes = count * element_bytes;
  if (size() == 1) {
    reduce_sources({&send, 1}, recv, count, dtype, redop);
  } else if (bytes <= kSmallBytes / world_ranks_.size()) {
    std::byte* const all = work_.data();
    copy_bytes(all + static_cast<std::size_t>(rank_) * bytes, send, bytes);
    all_gather_doubling(all, {count * world_ranks_.size(), count, element_bytes});
    for (std::size_t i = 0; i < source_addresses_.size(); ++i) source_addresses_[i] = all + i * bytes;
    reduce_sources(source_addresses_, recv, count, dtype, redop);
  } else {
    const RankShares shares = even_shares(count, element_bytes);
    reduce_own_share(send, recv + shares.first_byte(rank_), shares, dtype, redop);
    // Sends of `send` may still be in flight. In place, the gather would overwrite their data.
    flows_.finish();
    gather_shares(recv, shares);
  }
}

// Proceeds in blocks, each of at most one slot per rank. Each rank reduces its share of a block and sends it to the
// root.
void SocketCommunicator::reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                                int root) {
  const std::size_t element_bytes = size_bytes(dtype);
  const bool is_root = rank_ == root;
  const std::size_t max_block_count = slot_bytes_ / element_bytes * world_ranks_.size();
  for (std::size_t first = 0; first < count; first += max_block_count) {
    const std::size_t block_count = std::min(max_block_count, count - first);
    const std::size_t block_bytes = block_count * element_bytes;
    const std::byte* const data = send + first * element_bytes;
    std::byte* const result = recv + first * element_bytes;
    if (block_bytes <= kSmallBytes / world_ranks_.size()) {
      reduce_at_root(data, result, block_count, dtype, redop, root);
      continue;
    }
    const RankShares shares = even_shares(block_count, element_bytes);
    std::byte* const reduced = is_root ? result + shares.first_byte(rank_) : slot(rank_);
    reduce_own_share(data, reduced, shares, dtype, redop);
    if (!is_root) flows_.send(root, reduced, shares.bytes(rank_));
    for (int distance = 1; is_root && distance < size(); ++distance) {
      const int from = rank_after(distance);
      flows_.receive(from, result + shares.first_byte(from), shares.bytes(from));
    }
    flows_.finish();
  }
}

// The root receives all data and reduces it alone.
void SocketCommunicator::reduce_at_root(const std::byte* send, std::byte* result, std::size_t count, Dtype dtype,
                                        Redop redop, int root) {
  const std::size_t bytes = count * size_bytes(dtype);
  if (rank_ != root) {
    flows_.send(root, send, bytes);
    flows_.finish();
    return;
  }
  for (int distance = 1; distance < size(); ++distance) {
    const int from = rank_after(distance);
    flows_.receive(from, work_.data() + static_cast<std::size_t>(from) * bytes, bytes);
  }
  flows_.finish();
  for (std::size_t rank = 0; rank < source_addresses_.size(); ++rank)
    source_addresses_[rank] = work_.data() + rank * bytes;
  source_addresses_[static_cast<std::size_t>(rank_)] = send;
  reduce_sources(source_addresses_, result, count, dtype, redop);
}

void SocketCommunicator::reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                        Redop redop) {
  const std::size_t element_bytes = size_bytes(dtype);
  reduce_own_share(send, recv, {recv_count * world_ranks_.size(), recv_count, element_bytes}, dtype, redop);
  flows_.finish();
}

void SocketCommunicator::all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) {
  const RankShares shares{send_count * world_ranks_.size(), send_count, size_bytes(dtype)};
  copy_bytes(recv + shares.first_byte(rank_), send, shares.bytes(rank_));
  gather_shares(recv, shares);
}

void SocketCommunicator::broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) {
  const std::size_t bytes = count * size_bytes(dtype);
  if (rank_ == root) copy_bytes(recv, send, bytes);
  if (bytes <= kMaxTreeBytes) {
    broadcast_tree(recv, bytes, root);
  } else {
    broadcast_chain(recv, bytes, root);
  }
}

void SocketCommunicator::gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) {
  const std::size_t bytes = send_count * size_bytes(dtype);
  if (rank_ == root) {
    for (int distance = 1; distance < size(); ++distance) {
      const int from = rank_after(distance);
      flows_.receive(from, recv + static_cast<std::size_t>(from) * bytes, bytes);
    }
    copy_bytes(recv + static_cast<std::size_t>(rank_) * bytes, send, bytes);
  } else {
    flows_.send(root, send, bytes);
  }
  flows_.finish();
}

void SocketCommunicator::scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                 int root) {
  const std::size_t bytes = recv_count * size_bytes(dtype);
  if (rank_ == root) {
    for (int distance = 1; distance < size(); ++distance) {
      const int to = rank_after(distance);
      flows_.send(to, send + static_cast<std::size_t>(to) * bytes, bytes);
    }
    copy_bytes(recv, send + static_cast<std::size_t>(rank_) * bytes, bytes);
  } else {
    flows_.receive(root, recv, bytes);
  }
  flows_.finish();
}

void SocketCommunicator::alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) {
  const std::size_t bytes = count * size_bytes(dtype);
  const auto own_offset = static_cast<std::size_t>(rank_) * bytes;
  for (int distance = 1; distance < size(); ++distance) {
    const int to = rank_after(distance);
    const int from = rank_after(size() - distance);
    flows_.send(to, send + static_cast<std::size_t>(to) * bytes, bytes);
    flows_.receive(from, recv + static_cast<std::size_t>(from) * bytes, bytes);
  }
  copy_bytes(recv + own_offset, send + own_offset, bytes);
  finish_flows(/*in_place=*/send == recv);
}

void SocketCommunicator::finish_flows(bool in_place) {
  if (in_place) {
    flows_.finish_in_place();
  } else {
    flows_.finish();
  }
}

void SocketCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  const std::size_t element_bytes = size_bytes(dtype);
  const auto is_self = [&](const Transfer& transfer) { return transfer.peer == rank_; };
  const auto is_skipped = [&](const Transfer& transfer) {
    return is_self(transfer) || flows_.failed_peers().contains(transfer.peer);
  };
  const auto overlaps_receive = [&](const Transfer& send) {
    return std::ranges::any_of(recvs, [&](const Transfer& recv) { return has_overlap(send, recv, element_bytes); });
  };
  // These calls only add flows: data moves in `finish_flows`.
  for (const Transfer& send : sends) {
    if (!is_skipped(send)) flows_.send(send.peer, send.data, send.count * element_bytes, send.is_peer_busy);
  }
  for (const Transfer& recv : recvs) {
    if (!is_skipped(recv)) flows_.receive(recv.peer, recv.data, recv.count * element_bytes, recv.is_peer_busy);
  }
  const bool in_place = std::ranges::any_of(sends, overlaps_receive);
  const auto own_send = std::ranges::find_if(sends, is_self);
  const auto own_recv = std::ranges::find_if(recvs, is_self);
  // In place, data from this rank to itself is saved before `finish_flows` receives data, and stored after
  // `finish_flows` has sent all data.
  std::vector<std::byte> saved_data;
  const bool sends_to_itself = own_send != sends.end() && own_recv != recvs.end();
  const bool moves_own_data = sends_to_itself && own_send->data != own_recv->data;
  if (moves_own_data && in_place) saved_data.assign(own_send->data, own_send->data + own_send->count * element_bytes);
  if (moves_own_data && !in_place) copy_bytes(own_recv->data, own_send->data, own_send->count * element_bytes);
  finish_flows(in_place);
  if (!saved_data.empty()) std::ranges::copy(saved_data, own_recv->data);
}

bool SocketCommunicator::give_up_peers_after(double limit_s) {
  peer_limit_s_ = limit_s;
  flows_.give_up_after(ticks_of(limit_s));
  return true;
}

// Connects all living ranks again, for two reasons. A rank may have given up a healthy peer that only waited for a lost
// rank. And the old connections may still carry data of flows that were given up, which new connections do not.
ConnectionProblem SocketCommunicator::reconnect(Team& living) {
  mesh_.reconnect(living, kConnectLimits * peer_limit_s_);
  flows_.restart();
  return {};
}

std::vector<std::pair<int, std::string>> SocketCommunicator::failed_peers() const {
  return {flows_.failed_peers().begin(), flows_.failed_peers().end()};
}

}  // namespace busbw
