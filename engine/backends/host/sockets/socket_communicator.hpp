#pragma once
// Collectives of the host backend between processes without shared memory: over TCP, directly from and to the ranks'
// buffers.
#include <cstddef>
#include <span>
#include <vector>

#include "backends/host/host_memory_communicator.hpp"
#include "backends/host/sockets/socket_exchange.hpp"
#include "backends/host/sockets/socket_mesh.hpp"

namespace busbw {

/// Every element is reduced from all ranks' data in rank order, by one rank or by each rank that needs the result.
/// Results therefore have the same bits on every rank, and the same as over shared memory. Either all ranks of a
/// collective are in place or no rank is.
class SocketCommunicator final : public HostMemoryCommunicator {
 public:
  /// Bytes of a rank's work memory, in addition to its buffers. With over 16,384 ranks, it has 64 bytes per rank.
  static constexpr std::size_t kWorkBytes = std::size_t{1} << 20;

  /// `world` must outlive this.
  SocketCommunicator(SocketMesh mesh, const Team& world, std::span<std::byte> send_buffer,
                     std::span<std::byte> recv_buffer);

  std::span<std::byte> send_buffer() override { return send_buffer_; }
  std::span<std::byte> recv_buffer() override { return recv_buffer_; }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) override;
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) override;
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) override;
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) override;
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) override;
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) override;
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) override;
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) override;
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override;
  bool give_up_peers_after(double limit_s) override;
  std::vector<std::pair<int, std::string>> failed_peers() const override;
  ConnectionProblem reconnect(Team& living) override;

  void enter(Phase phase) override { flows_.enter(phase); }

 private:
  /// Division of an array of `count` elements into one share per rank: `per_rank` elements, but fewer or none for the
  /// last ranks.
  struct RankShares {
    std::size_t count;
    std::size_t per_rank;
    std::size_t element_bytes;

    std::size_t first_byte(int rank) const;
    std::size_t bytes(int rank) const { return first_byte(rank + 1) - first_byte(rank); }
  };
  RankShares even_shares(std::size_t count, std::size_t element_bytes) const;

  /// Rank at `distance` after this one. Loops run over distances, so that not all ranks address the same peer at once.
  int rank_after(int distance) const { return (rank_ + distance) % size(); }
  /// Temporary memory for data of one rank. The slots divide `work_` evenly among the ranks.
  std::byte* slot(int rank) { return work_.data() + static_cast<std::size_t>(rank) * slot_bytes_; }

  void reduce_sources(std::span<const std::byte* const> sources, std::byte* result, std::size_t count, Dtype, Redop);
  void reduce_at_root(const std::byte* send, std::byte* result, std::size_t count, Dtype, Redop, int root);
  /// Reduces this rank's share of all ranks' data to `result`. Data to send may still be in flight when it returns.
  void reduce_own_share(const std::byte* send, std::byte* result, const RankShares&, Dtype, Redop);
  /// Sends this rank's share in `all` to all ranks and receives their shares.
  void gather_shares(std::byte* all, const RankShares&);
  void all_gather_doubling(std::byte* all, const RankShares&);
  void all_gather_ring(std::byte* all, const RankShares&);
  /// Waits for all transfers. `in_place`: data to send lies where data is received (SocketExchange::finish_in_place).
  void finish_flows(bool in_place);
  void broadcast_tree(std::byte* data, std::size_t bytes, int root);
  void broadcast_chain(std::byte* data, std::size_t bytes, int root);

  SocketMesh mesh_;
  std::span<std::byte> send_buffer_;
  std::span<std::byte> recv_buffer_;
  SocketExchange flows_;
  double peer_limit_s_ = 0;  // of give_up_peers_after
  std::vector<std::byte> work_;
  std::size_t slot_bytes_;
  /// Argument of reduce_sources(). As a member, it saves an allocation per operation.
  std::vector<const std::byte*> source_addresses_;
};

}  // namespace busbw
