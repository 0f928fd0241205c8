#include "backends/host/sockets/socket_communicator.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/host/reduce_kernel.hpp"

namespace busbw {
namespace {

/// Alignment of shares: a share starts on a cache line if its array does.
constexpr std::size_t kLineBytes = 64;
/// Up to this total over all ranks, every rank receives all data, because the number of steps dominates the time.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
/// Maximum bytes of a broadcast that ranks forward as a whole. Larger data is forwarded while it arrives.
constexpr std::size_t kWholeBytes = std::size_t{32} << 10;
/// Maximum bytes received from a rank before they are reduced, so that they are still in the cache.
constexpr std::size_t kMaxSlotBytes = std::size_t{128} << 10;

std::size_t rounded_up(std::size_t number, std::size_t to) { return (number + to - 1) / to * to; }

bool overlap(const Transfer& a, const Transfer& b, std::size_t element_bytes) {
  return std::less{}(a.data, b.data + b.count * element_bytes) && std::less{}(b.data, a.data + a.count * element_bytes);
}

}  // namespace

std::size_t SocketCommunicator::RankShares::first_byte(int rank) const {
  return std::min(static_cast<std::size_t>(rank) * per_rank, count) * element_bytes;
}

SocketCommunicator::SocketCommunicator(SocketMesh mesh, const Team& world, std::span<std::byte> send_buffer,
                                       std::span<std::byte> recv_buffer, std::span<const Fault> faults)
    : HostMemoryCommunicator(mesh.world_ranks(), mesh.rank(), faults),
      mesh_(std::move(mesh)),
      send_buffer_(send_buffer),
      recv_buffer_(recv_buffer),
      exchange_(mesh_, world),
      work_(std::max(kWorkBytes, members_.size() * kLineBytes)),
      slot_bytes_(std::clamp(kWorkBytes / members_.size() / kLineBytes * kLineBytes, kLineBytes, kMaxSlotBytes)),
      sources_(members_.size()) {}

void SocketCommunicator::enter(Phase phase) {
  exchange_.enter(phase);
  HostMemoryCommunicator::enter(phase);
}

SocketCommunicator::RankShares SocketCommunicator::even_shares(std::size_t count, std::size_t element_bytes) const {
  const std::size_t fair = (count + members_.size() - 1) / members_.size();
  return {count, rounded_up(fair, kLineBytes / element_bytes), element_bytes};
}

void SocketCommunicator::reduce_all(std::span<const std::byte* const> sources, std::byte* result, std::size_t count,
                                    Dtype dtype, Redop redop) {
  reduce_elements(sources, {&result, 1}, 0, count, dtype, redop, WriteMode::cached);
}

// Every rank sends every other rank its part of that rank's share. The traffic equals that of a ring, but values are
// rounded only once, and averages and scalars are applied only once.
void SocketCommunicator::reduce_own_share(const std::byte* send, std::byte* result, const RankShares& shares,
                                          Dtype dtype, Redop redop) {
  for (int distance = 1; distance < size(); ++distance) {
    const int to = peer(distance);
    exchange_.send(to, send + shares.first_byte(to), shares.bytes(to));
  }
  const std::byte* const own = send + shares.first_byte(rank_);
  const std::size_t bytes = shares.bytes(rank_);
  for (std::size_t done = 0; done < bytes; done += slot_bytes_) {
    const std::size_t part = std::min(slot_bytes_, bytes - done);
    for (int distance = 1; distance < size(); ++distance) {
      const int from = peer(distance);
      sources_[static_cast<std::size_t>(from)] = slot(from);
      exchange_.receive(from, slot(from), part);
    }
    sources_[static_cast<std::size_t>(rank_)] = own + done;
    exchange_.finish_receives();
    reduce_all(sources_, result + done, part / shares.element_bytes, dtype, redop);
  }
}

void SocketCommunicator::gather_shares(std::byte* all, const RankShares& shares) {
  shares.count* shares.element_bytes <= kSmallBytes ? all_gather_doubling(all, shares) : all_gather_ring(all, shares);
}

// After each step, a rank holds the shares of twice as many ranks: its own and those of the ranks after it.
void SocketCommunicator::all_gather_doubling(std::byte* all, const RankShares& shares) {
  const auto pieces = [&](int first, int ranks, const auto& move) {
    const int end = first + ranks;
    const auto piece = [&](int from, int to) {
      move(all + shares.first_byte(from), shares.first_byte(to) - shares.first_byte(from));
    };
    piece(first, std::min(end, size()));
    if (end > size()) piece(0, end - size());
  };
  for (int held = 1; held < size(); held *= 2) {
    const int moved = std::min(held, size() - held);
    const int to = peer(size() - held);
    const int from = peer(held);
    pieces(rank_, moved, [&](std::byte* data, std::size_t bytes) { exchange_.send(to, data, bytes); });
    pieces(from, moved, [&](std::byte* data, std::size_t bytes) { exchange_.receive(from, data, bytes); });
    exchange_.finish();
  }
}

// Shares travel around the ring: each rank forwards data while it receives it.
void SocketCommunicator::all_gather_ring(std::byte* all, const RankShares& shares) {
  const int next = peer(1);
  const int previous = peer(size() - 1);
  exchange_.send(next, all + shares.first_byte(rank_), shares.bytes(rank_));
  for (int distance = 1; distance < size(); ++distance) {
    const int owner = peer(size() - distance);
    std::byte* const share = all + shares.first_byte(owner);
    const auto flow = exchange_.receive(previous, share, shares.bytes(owner));
    if (owner != next) exchange_.forward(next, share, shares.bytes(owner), flow);
  }
  exchange_.finish();
}

void SocketCommunicator::broadcast_tree(std::byte* data, std::size_t bytes, int root) {
  const int position = (rank_ - root + size()) % size();  // relative to the root
  const auto rank_at = [&](int at) { return (at + root) % size(); };
  int bit = 1;
  while (bit < size() && (position & bit) == 0) bit *= 2;
  if (position != 0) {
    exchange_.receive(rank_at(position - bit), data, bytes);
    exchange_.finish_receives();
  }
  while ((bit /= 2) > 0) {
    if (position + bit < size()) exchange_.send(rank_at(position + bit), data, bytes);
  }
  exchange_.finish();
}

void SocketCommunicator::broadcast_chain(std::byte* data, std::size_t bytes, int root) {
  const int next = peer(1);
  if (rank_ == root) {
    exchange_.send(next, data, bytes);
  } else {
    const auto flow = exchange_.receive(peer(size() - 1), data, bytes);
    if (next != root) exchange_.forward(next, data, bytes, flow);
  }
  exchange_.finish();
}

void SocketCommunicator::all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
                                    Redop redop) {
  const std::size_t width = size_bytes(dtype);
  const std::size_t bytes = count * width;
  faults_.before_operation();
  if (size() == 1) {
    reduce_all({&send, 1}, recv, count, dtype, redop);
  } else if (bytes <= kSmallBytes / members_.size()) {
    std::byte* const all = work_.data();
    move_bytes(all + static_cast<std::size_t>(rank_) * bytes, send, bytes);
    all_gather_doubling(all, {count * members_.size(), count, width});
    for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i] = all + i * bytes;
    reduce_all(sources_, recv, count, dtype, redop);
  } else {
    const RankShares shares = even_shares(count, width);
    reduce_own_share(send, recv + shares.first_byte(rank_), shares, dtype, redop);
    exchange_.finish();  // in place, the gather overwrites data that must be sent before
    gather_shares(recv, shares);
  }
  faults_.after_operation({recv, bytes}, width);
}

// Each rank reduces its share of a block and sends it to the root, block by block.
void SocketCommunicator::reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                                int root) {
  const std::size_t width = size_bytes(dtype);
  const bool is_root = rank_ == root;
  faults_.before_operation();
  const std::size_t block = slot_bytes_ / width * members_.size();
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t part = std::min(block, count - first);
    // The root reduces a small block alone.
    const bool small = part * width <= kSmallBytes / members_.size();
    const std::byte* const data = send + first * width;
    std::byte* const result = recv + first * width;
    if (small) {
      if (!is_root) exchange_.send(root, data, part * width);
      for (int distance = 1; is_root && distance < size(); ++distance) {
        const int from = peer(distance);
        exchange_.receive(from, work_.data() + static_cast<std::size_t>(from) * part * width, part * width);
      }
      exchange_.finish();
      if (!is_root) continue;
      for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i] = work_.data() + i * part * width;
      sources_[static_cast<std::size_t>(rank_)] = data;
      reduce_all(sources_, result, part, dtype, redop);
      continue;
    }
    const RankShares shares = even_shares(part, width);
    std::byte* const reduced = is_root ? result + shares.first_byte(rank_) : slot(rank_);
    reduce_own_share(data, reduced, shares, dtype, redop);
    if (!is_root) exchange_.send(root, reduced, shares.bytes(rank_));
    for (int distance = 1; is_root && distance < size(); ++distance) {
      const int from = peer(distance);
      exchange_.receive(from, result + shares.first_byte(from), shares.bytes(from));
    }
    exchange_.finish();
  }
  if (is_root) faults_.after_operation({recv, count * width}, width);
}

void SocketCommunicator::reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                        Redop redop) {
  const std::size_t width = size_bytes(dtype);
  faults_.before_operation();
  reduce_own_share(send, recv, {recv_count * members_.size(), recv_count, width}, dtype, redop);
  exchange_.finish();
  faults_.after_operation({recv, recv_count * width}, width);
}

void SocketCommunicator::all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) {
  const RankShares shares{send_count * members_.size(), send_count, size_bytes(dtype)};
  faults_.before_operation();
  move_bytes(recv + shares.first_byte(rank_), send, shares.bytes(rank_));
  gather_shares(recv, shares);
  faults_.after_operation({recv, shares.first_byte(size())}, size_bytes(dtype));
}

void SocketCommunicator::broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) {
  const std::size_t bytes = count * size_bytes(dtype);
  faults_.before_operation();
  if (rank_ == root) move_bytes(recv, send, bytes);
  bytes <= kWholeBytes ? broadcast_tree(recv, bytes, root) : broadcast_chain(recv, bytes, root);
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void SocketCommunicator::gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) {
  const std::size_t bytes = send_count * size_bytes(dtype);
  faults_.before_operation();
  if (rank_ == root) {
    for (int distance = 1; distance < size(); ++distance) {
      const int from = peer(distance);
      exchange_.receive(from, recv + static_cast<std::size_t>(from) * bytes, bytes);
    }
    move_bytes(recv + static_cast<std::size_t>(rank_) * bytes, send, bytes);
  } else {
    exchange_.send(root, send, bytes);
  }
  exchange_.finish();
  if (rank_ == root) faults_.after_operation({recv, bytes * members_.size()}, size_bytes(dtype));
}

void SocketCommunicator::scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                 int root) {
  const std::size_t bytes = recv_count * size_bytes(dtype);
  faults_.before_operation();
  if (rank_ == root) {
    for (int distance = 1; distance < size(); ++distance) {
      const int to = peer(distance);
      exchange_.send(to, send + static_cast<std::size_t>(to) * bytes, bytes);
    }
    move_bytes(recv, send + static_cast<std::size_t>(rank_) * bytes, bytes);
  } else {
    exchange_.receive(root, recv, bytes);
  }
  exchange_.finish();
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void SocketCommunicator::alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) {
  const std::size_t bytes = count * size_bytes(dtype);
  const auto own = static_cast<std::size_t>(rank_) * bytes;
  faults_.before_operation();
  for (int distance = 1; distance < size(); ++distance) {
    const int to = peer(distance);
    const int from = peer(size() - distance);
    exchange_.send(to, send + static_cast<std::size_t>(to) * bytes, bytes);
    exchange_.receive(from, recv + static_cast<std::size_t>(from) * bytes, bytes);
  }
  move_bytes(recv + own, send + own, bytes);
  send == recv ? exchange_.finish_in_place() : exchange_.finish();
  faults_.after_operation({recv, bytes * members_.size()}, size_bytes(dtype));
}

void SocketCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  const std::size_t width = size_bytes(dtype);
  faults_.before_operation();
  const auto is_self = [&](const Transfer& transfer) { return transfer.peer == rank_; };
  const auto own_send = std::ranges::find_if(sends, is_self);
  const auto own_recv = std::ranges::find_if(recvs, is_self);
  bool in_place = false;
  for (const Transfer& send : sends) {
    if (!is_self(send)) exchange_.send(send.peer, send.data, send.count * width);
    for (const Transfer& recv : recvs) in_place |= overlap(send, recv, width);
  }
  for (const Transfer& recv : recvs) {
    if (!is_self(recv)) exchange_.receive(recv.peer, recv.data, recv.count * width);
  }
  // Data from a rank to itself is saved before anything is received, and stored after everything was sent.
  std::vector<std::byte> kept;
  const bool to_itself = own_send != sends.end() && own_recv != recvs.end() && own_send->data != own_recv->data;
  if (to_itself && in_place) kept.assign(own_send->data, own_send->data + own_send->count * width);
  if (to_itself && !in_place) move_bytes(own_recv->data, own_send->data, own_send->count * width);
  in_place ? exchange_.finish_in_place() : exchange_.finish();
  std::ranges::copy(kept, to_itself ? own_recv->data : nullptr);
  faults_.after_operation(result_of(recvs, width), width);
}

}  // namespace busbw
