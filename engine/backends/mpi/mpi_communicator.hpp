#pragma once
// NCCL's operations as MPI's blocking collectives on host memory.
#include <span>
#include <vector>

#include "backends/host/host_memory_communicator.hpp"
#include "backends/mpi/mpi_reduction.hpp"

namespace busbw {

/// The memory of one rank; each part has the size of a buffer. `scratch` holds data of operations that MPI cannot do in
/// place.
struct MpiMemory {
  std::span<std::byte> send;
  std::span<std::byte> recv;
  std::span<std::byte> scratch;
};

/// A collective may never return after a peer is lost. The rank then stays blocked, and its process ends without it
/// when the job is aborted. `exchange` checks for an abort while it waits.
class MpiCommunicator final : public HostMemoryCommunicator {
 public:
  /// Takes ownership of `communicator`; `members` are the job ranks of its ranks. `world` and `operators` must outlive
  /// this. `completed` is set if the destructor runs in good order, which then holds for all ranks.
  MpiCommunicator(MPI_Comm communicator, std::vector<int> members, const Team& world, const MpiOperators& operators,
                  MpiMemory memory, std::span<const Fault> faults, bool& completed);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

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

 private:
  /// Data that this rank contributes to a reduction: `send`, or its multiple in scratch memory for mulsum.
  const std::byte* contribution(const std::byte* send, std::size_t count, Dtype dtype, Redop redop);
  void finish(std::byte* recv, std::size_t count, Dtype dtype, Redop redop);

  MPI_Comm communicator_;
  const Team& world_;
  const MpiOperators& operators_;
  MpiMemory memory_;
  bool& completed_;
};

}  // namespace busbw
