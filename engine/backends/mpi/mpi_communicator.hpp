#pragma once
// NCCL's operations as MPI's blocking collectives on host memory.
#include <span>

#include "backends/backend.hpp"
#include "backends/host/faults.hpp"
#include "backends/mpi/mpi_reduction.hpp"

namespace busbw {

/// The memory of one rank, each part as large as a buffer. `scratch` holds what MPI cannot do in place.
struct MpiMemory {
  std::span<std::byte> send;
  std::span<std::byte> recv;
  std::span<std::byte> scratch;
};

/// Calls return when the rank's part of the operation is done, as MPI's do, so `synchronize` has nothing to wait for.
///
/// A collective whose peer is gone may never return: the rank then stays in it, and its process ends without it once the
/// job is aborted. `exchange` looks at the job while it waits.
class MpiCommunicator final : public Communicator {
 public:
  /// `members` becomes this object's. `world` and `operators` must outlive it. `came_to_end` is set when it is destroyed
  /// in good order, which all ranks then do.
  MpiCommunicator(MPI_Comm members, const Team& world, const MpiOperators& operators, MpiMemory memory,
                  std::span<const Fault> faults, bool& came_to_end);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::span<std::byte> send_buffer() override { return memory_.send; }
  std::span<std::byte> recv_buffer() override { return memory_.recv; }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) override;
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) override;
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) override;
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) override;
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) override;
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) override;
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) override;
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) override;
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void synchronize() override {}

  void fill(std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements) override;
  void compare(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches&) override;
  void enter(Phase phase) override { faults_.enter(phase); }

 private:
  /// What this rank puts into a reduction: `send`, or for mulsum its multiple in scratch memory.
  const std::byte* contribution(const std::byte* send, std::size_t count, Dtype dtype, Redop redop);
  void finish(std::byte* recv, std::size_t count, Dtype dtype, Redop redop);

  MPI_Comm members_;
  const Team& world_;
  const MpiOperators& operators_;
  MpiMemory memory_;
  int rank_ = 0;
  int size_ = 1;
  RankFaults faults_;
  bool& came_to_end_;
};

}  // namespace busbw
