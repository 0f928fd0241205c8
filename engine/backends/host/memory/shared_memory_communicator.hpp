#pragma once
// Collectives over shared memory. Each rank reads its peers' send buffers directly, or small data from their staging
// areas. Barriers separate publishing, reading and reuse.
#include <span>
#include <vector>

#include "backends/host/host_memory_communicator.hpp"
#include "backends/host/memory/workspace.hpp"
#include "backends/host/reduce_kernel.hpp"

namespace busbw {

/// If ranks are processes, memory that peers access must lie in the workspace. Either all ranks of a collective are in
/// place or no rank is.
class SharedMemoryCommunicator final : public HostMemoryCommunicator {
 public:
  /// `world_ranks`: world rank of each rank of the communicator. `cache_bytes`: size of the last-level
  /// cache. `layer`: number of the layer (see Workspace). The workspace and `world` must outlive this.
  SharedMemoryCommunicator(const Workspace& workspace, const Team& world, std::vector<int> world_ranks, int rank,
                           std::size_t cache_bytes, int layer = 0);

  std::span<std::byte> send_buffer() override { return workspace_.send_buffer(world_rank(rank_)); }
  std::span<std::byte> recv_buffer() override { return workspace_.recv_buffer(world_rank(rank_)); }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) override;
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) override;
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) override;
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) override;
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) override;
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) override;
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) override;
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) override;
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override;
  std::optional<PutObstacle> put_obstacle() const override { return {}; }
  void put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype) override;

 private:
  RankControl& rank_control(int rank) const { return workspace_.rank_control(world_rank(rank), layer_); }
  GroupControl& group_control() const { return workspace_.group_control(world_rank(0), layer_); }
  void barrier() { group_control().barrier.arrive_and_wait(size(), world_); }

  /// Publishes or stages this rank's data, and waits for all ranks. Afterwards sources_[r] is the data that rank r
  /// sends. Unless staged_, destinations_[r] is where rank r receives. `max_bytes`: maximum that a rank sends; equal on
  /// all ranks.
  void enter_collective(const std::byte* send, std::size_t send_bytes, std::byte* recv, std::size_t max_bytes);
  /// Returns when no peer uses this rank's memory any more.
  void leave_collective();
  /// Reduces all sources into all `destinations`. The ranks divide the elements among themselves.
  void reduce_cooperatively(std::span<std::byte* const> destinations, std::size_t count, Dtype, Redop, WriteMode);
  /// Copies the segments of all ranks, of `bytes` bytes each, to `recv` in rank order.
  void collect_segments(const std::byte* send, std::byte* recv, std::size_t bytes);
  WriteMode write_mode_for(const std::byte* send, const std::byte* recv, std::size_t touched_bytes) const;

  const Workspace& workspace_;
  const Team& world_;
  std::size_t cache_bytes_;
  int layer_;
  bool staged_ = false;  // the current collective uses the staging areas
  std::size_t staging_index_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> destinations_;
};

}  // namespace busbw
