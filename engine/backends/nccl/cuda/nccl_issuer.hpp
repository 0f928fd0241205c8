#pragma once
// Carries out one rank's requests on its GPU, by calls of NCCL and CUDA. The launch group's leader thread runs it.
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/cuda_gate.hpp"
#include "backends/nccl/cuda/device_comm.hpp"
#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/launch_group.hpp"
#include "common/os/ticker.hpp"

namespace busbw {

/// Resources of a rank on its GPU, all owned by its communicator.
struct RankResources {
  int device;
  std::string rank_text;  // "rank 3 on GPU 0000:0f:00"
  int rank;   // in the communicator
  int ranks;  // of the communicator
  cudaStream_t stream;
  const std::vector<CudaEvent>& timestamp_events;  // by number of the timestamp
  const NcclRegistration* registration;  // null without -R
  const DeviceComm* kernel;  // replaces NCCL's operation; null without -D
};

/// Issuer of one rank. OperationIssuer documents the overridden functions.
class NcclIssuer final : public OperationIssuer {
 public:
  /// All arguments must outlive this.
  NcclIssuer(const NcclLibrary& library, NcclComm& comm, RankResources resources, CudaGate& gate);
  ~NcclIssuer() override;
  NcclIssuer(const NcclIssuer&) = delete;
  NcclIssuer& operator=(const NcclIssuer&) = delete;

  void run(const IssueRequest&) override;
  void begin_nccl_group() override;
  void end_nccl_group() override;
  void abort_nccl_group() noexcept override;
  bool has_finished() override;
  void recover() noexcept override;

  /// From now on, leaves the communicator if no operation of this rank ends within `limit_s`, or if NCCL reports an
  /// error of a peer. Later exchanges then only give up their peers. Call it only if the communicator survives losses.
  void leave_after(double limit_s) {
    stall_limit_.emplace(limit_s);
    limit_s_ = limit_s;
  }
  /// Peers of exchanges that did not end because this rank left the communicator, with the reason.
  const std::map<int, std::string>& failed_peers() const { return failed_peers_; }
  /// Continues after the communicator was replaced. `ranks[i]`: number in requests of rank i of the new communicator.
  void continue_with(const std::vector<int>& ranks);

  /// Returns the graph of the last capture, once.
  std::shared_ptr<CudaGraph> take_graph() { return std::move(graph_); }

 private:
  void dispatch(const IssueRequest&);
  void run_kernel(const IssueRequest&);
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype);
  void put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype);
  /// Calls `issue` within an NCCL group.
  template <class Issue>
  void issue_in_group(const Issue& issue);
  void gather(const IssueRequest&);
  void scatter(const IssueRequest&);
  void alltoall(const IssueRequest&);
  void record_timestamp(std::size_t number);
  void begin_capture();
  void end_capture();
  void instantiate_graph();
  ncclRedOp_t nccl_redop(Redop redop, Dtype dtype);
  /// Returns when the calls so far have put their work into the stream, or this rank has left the communicator.
  void finish_calls();
  /// True if a timestamp was reached since the last call.
  bool has_progressed();
  void leave_if_stalled();
  /// Leaves the communicator if `state` is an error that a peer may have caused. Throws if it is another error.
  void handle_state(ncclResult_t state);
  /// Aborts the communicator, which ends its operations, and gives up their peers.
  void leave(const std::string& reason);
  /// Adds the awaited peers to the failed peers, with the reason of the last `leave`.
  void give_up_awaited_peers();
  void leave_after_timeout();
  /// Throws like NcclComm::check_call. In a communicator that survives losses, keeps an error that a peer may have
  /// caused for `finish_calls`.
  void check_call(ncclResult_t result, const char* activity);
  /// Number of a peer in the communicator.
  int comm_rank(int peer) const { return comm_ranks_.empty() ? peer : comm_ranks_.at(peer); }

  const NcclFunctions& nccl_;
  NcclComm& comm_;
  RankResources resources_;
  CudaGate& gate_;
  bool is_capturing_ = false;
  cudaGraph_t captured_ = nullptr;  // until it is instantiated
  std::shared_ptr<CudaGraph> graph_;
  std::map<Dtype, ncclRedOp_t> premulsums_;  // operators of Redop::mulsum, made at their first use
  std::vector<Transfer> sends_;  // reused by operations that are made of sends and receives
  std::vector<Transfer> recvs_;
  std::vector<AwaitedSignals> awaited_signals_;  // reused by `put`
  unsigned poll_count_ = 0;
  // For communicators that survive losses.
  std::optional<TickLimit> stall_limit_;    // set by `leave_after`
  double limit_s_ = 0;                      // of stall_limit_
  std::size_t last_closing_ = 0;            // number of the gate's last closing (gate_kernel.hpp)
  bool is_waiting_ = false;                 // no request since the last call of `has_finished`
  ncclResult_t call_error_ = ncclSuccess;   // for `finish_calls`
  std::set<int> awaited_peers_;             // peers of exchanges since the stream was last empty
  std::deque<std::size_t> pending_timestamps_;  // timestamps that the stream has not reached
  std::string leave_reason_;  // of the last time that this rank left its communicator
  std::map<int, std::string> failed_peers_;
  std::map<int, int> comm_ranks_;  // rank in the communicator, by the peer's number in requests; empty: both are equal
};

}  // namespace busbw
