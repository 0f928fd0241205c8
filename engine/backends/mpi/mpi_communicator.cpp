#include "backends/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "backends/host/reduce_kernel.hpp"
#include "rendezvous/team/wait.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {
namespace {

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  require_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  return rank;
}

/// MPI's way to express that the result buffer already holds the data.
const void* unless_in_place(const std::byte* send, bool in_place) { return in_place ? MPI_IN_PLACE : send; }

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm communicator, std::vector<int> members, const Team& world,
                                 const MpiOperators& operators, MpiMemory memory, std::span<const Fault> faults,
                                 bool& completed)
    : HostMemoryCommunicator(std::move(members), rank_in(communicator), faults),
      communicator_(communicator),
      world_(world),
      operators_(operators),
      memory_(memory),
      completed_(completed) {}

MpiCommunicator::~MpiCommunicator() {
  // Freeing and finalizing need all members. After an error, some may never take part.
  if (world_.aborted() || std::uncaught_exceptions() > 0) return;
  completed_ = MPI_Comm_free(&communicator_) == MPI_SUCCESS;
}

const std::byte* MpiCommunicator::contribution(const std::byte* send, std::size_t count, Dtype dtype, Redop redop) {
  if (redop != Redop::mulsum || mulsum_scalar(rank_) == 1) return send;
  scale_elements(memory_.scratch.data(), send, count, dtype, rank_);
  return memory_.scratch.data();
}

void MpiCommunicator::finish(std::byte* recv, std::size_t count, Dtype dtype, Redop redop) {
  if (redop == Redop::avg) average_elements(recv, count, dtype, size());
}

void MpiCommunicator::all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) {
  faults_.before_operation();
  const bool in_place = send == recv;
  // Either all ranks are in place or none, so this choice is the same on all of them.
  if (in_place && redop == Redop::mulsum) scale_elements(recv, send, count, dtype, rank_);
  const std::byte* const mine = in_place ? send : contribution(send, count, dtype, redop);
  require_mpi(MPI_Allreduce(unless_in_place(mine, in_place), recv, mpi_count(count), mpi_type(dtype),
                            operators_.of(dtype, redop), communicator_),
              "MPI_Allreduce");
  finish(recv, count, dtype, redop);
  faults_.after_operation({recv, count * size_bytes(dtype)}, size_bytes(dtype));
}

void MpiCommunicator::reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                             int root) {
  faults_.before_operation();
  const std::byte* const mine = contribution(send, count, dtype, redop);
  const bool in_place = rank_ == root && mine == recv;
  require_mpi(MPI_Reduce(unless_in_place(mine, in_place), recv, mpi_count(count), mpi_type(dtype),
                         operators_.of(dtype, redop), root, communicator_),
              "MPI_Reduce");
  if (rank_ != root) return;
  finish(recv, count, dtype, redop);
  faults_.after_operation({recv, count * size_bytes(dtype)}, size_bytes(dtype));
}

void MpiCommunicator::reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                     Redop redop) {
  faults_.before_operation();
  const std::size_t bytes = recv_count * size_bytes(dtype);
  const std::size_t ranks = static_cast<std::size_t>(size());
  const std::byte* const mine = contribution(send, recv_count * ranks, dtype, redop);
  // In place, NCCL stores the result in this rank's segment, MPI at the start of the data. Converting one to the other
  // needs a second buffer.
  const bool in_place = send == recv || (send < recv && recv < send + bytes * ranks);
  std::byte* const result = in_place && mine == send ? memory_.scratch.data() : recv;
  mpi_count(recv_count * ranks);
  require_mpi(MPI_Reduce_scatter_block(mine, result, mpi_count(recv_count), mpi_type(dtype),
                                       operators_.of(dtype, redop), communicator_),
              "MPI_Reduce_scatter_block");
  move_bytes(recv, result, bytes);
  finish(recv, recv_count, dtype, redop);
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void MpiCommunicator::all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) {
  faults_.before_operation();
  const std::size_t bytes = send_count * size_bytes(dtype);
  const bool in_place = send == recv + static_cast<std::size_t>(rank_) * bytes;
  require_mpi(MPI_Allgather(unless_in_place(send, in_place), mpi_count(send_count), mpi_type(dtype), recv,
                            mpi_count(send_count), mpi_type(dtype), communicator_),
              "MPI_Allgather");
  faults_.after_operation({recv, bytes * static_cast<std::size_t>(size())}, size_bytes(dtype));
}

void MpiCommunicator::broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) {
  faults_.before_operation();
  const std::size_t bytes = count * size_bytes(dtype);
  // MPI takes one buffer without const; the root only reads it.
  std::byte* const data = rank_ == root ? const_cast<std::byte*>(send) : recv;
  require_mpi(MPI_Bcast(data, mpi_count(count), mpi_type(dtype), root, communicator_), "MPI_Bcast");
  if (rank_ == root) move_bytes(recv, send, bytes);
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void MpiCommunicator::gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) {
  faults_.before_operation();
  const std::size_t bytes = send_count * size_bytes(dtype);
  const bool in_place = rank_ == root && send == recv + static_cast<std::size_t>(rank_) * bytes;
  require_mpi(MPI_Gather(unless_in_place(send, in_place), mpi_count(send_count), mpi_type(dtype), recv,
                         mpi_count(send_count), mpi_type(dtype), root, communicator_),
              "MPI_Gather");
  if (rank_ == root) faults_.after_operation({recv, bytes * static_cast<std::size_t>(size())}, size_bytes(dtype));
}

void MpiCommunicator::scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype, int root) {
  faults_.before_operation();
  const std::size_t bytes = recv_count * size_bytes(dtype);
  const bool in_place = rank_ == root && recv == send + static_cast<std::size_t>(rank_) * bytes;
  require_mpi(MPI_Scatter(send, mpi_count(recv_count), mpi_type(dtype), in_place ? MPI_IN_PLACE : recv,
                          mpi_count(recv_count), mpi_type(dtype), root, communicator_),
              "MPI_Scatter");
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void MpiCommunicator::alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) {
  faults_.before_operation();
  require_mpi(MPI_Alltoall(unless_in_place(send, send == recv), mpi_count(count), mpi_type(dtype), recv,
                           mpi_count(count), mpi_type(dtype), communicator_),
              "MPI_Alltoall");
  const std::size_t bytes = count * static_cast<std::size_t>(size()) * size_bytes(dtype);
  faults_.after_operation({recv, bytes}, size_bytes(dtype));
}

void MpiCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  faults_.before_operation();
  constexpr int kTag = 1;
  const std::size_t width = size_bytes(dtype);
  const auto overlaps = [&](const std::byte* at, std::size_t bytes, const Transfer& recv) {
    return bytes > 0 && recv.count > 0 && at < recv.data + recv.count * width && recv.data < at + bytes;
  };
  // Sends may overlap receives. MPI would overwrite data that is not yet sent.
  std::vector<const std::byte*> sources;
  std::byte* free_scratch = memory_.scratch.data();
  for (const Transfer& send : sends) {
    const std::size_t bytes = send.count * width;
    sources.push_back(send.data);
    if (std::ranges::none_of(recvs, [&](const Transfer& recv) { return overlaps(send.data, bytes, recv); })) continue;
    std::memcpy(free_scratch, send.data, bytes);
    sources.back() = std::exchange(free_scratch, free_scratch + bytes);
  }
  std::vector<MPI_Request> requests(sends.size() + recvs.size());
  for (std::size_t i = 0; i < recvs.size(); ++i)
    require_mpi(MPI_Irecv(recvs[i].data, mpi_count(recvs[i].count), mpi_type(dtype), recvs[i].peer, kTag, communicator_,
                          &requests[i]),
                "MPI_Irecv");
  for (std::size_t i = 0; i < sends.size(); ++i)
    require_mpi(MPI_Isend(sources[i], mpi_count(sends[i].count), mpi_type(dtype), sends[i].peer, kTag, communicator_,
                          &requests[recvs.size() + i]),
                "MPI_Isend");
  wait_until(world_, [&] {
    int done = 0;
    require_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
                "MPI_Testall");
    return done != 0;
  });
  faults_.after_operation(result_of(recvs, width), width);
}

}  // namespace busbw
