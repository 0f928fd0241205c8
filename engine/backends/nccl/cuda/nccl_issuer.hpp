#pragma once
// Carries out one rank's requests on its GPU, by calls of NCCL and CUDA. The launch group's leader thread runs it.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/cuda_gate.hpp"
#include "backends/nccl/cuda/device_comm.hpp"
#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/launch_group.hpp"

namespace busbw {

/// Resources of a rank on its GPU, all owned by its communicator.
struct RankResources {
  int device;
  std::string rank_text;  // "rank 3 on GPU 0000:0f:00"
  int rank;           // in the communicator
  int ranks;          // of the communicator
  cudaStream_t stream;
  const std::vector<CudaEvent>& stamps;  // events that record the timestamps
  const NcclRegistration* registration;  // null without -R
  const DeviceComm* kernel;  // replaces NCCL's operation; null without -D
};

/// Issuer of one rank. OperationIssuer documents the overridden functions.
class NcclIssuer final : public OperationIssuer {
 public:
  /// All arguments must outlive this.
  NcclIssuer(const NcclLibrary& library, const NcclComm& comm, RankResources resources, CudaGate& gate);
  ~NcclIssuer() override;
  NcclIssuer(const NcclIssuer&) = delete;
  NcclIssuer& operator=(const NcclIssuer&) = delete;

  void run(const IssueRequest&) override;
  void begin_nccl_group() override;
  void end_nccl_group() override;
  void abort_nccl_group() noexcept override;
  bool has_finished() override;
  void recover() noexcept override;

  /// Returns the graph of the last capture, once.
  std::shared_ptr<CudaGraph> take_graph() { return std::move(graph_); }

 private:
  void dispatch(const IssueRequest&);
  void run_kernel(const IssueRequest&);
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype);
  void put(std::span<const Put> puts, std::span<const int> sources, Dtype dtype);
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

  const NcclFunctions& nccl_;
  const NcclComm& comm_;
  RankResources resources_;
  CudaGate& gate_;
  bool is_capturing_ = false;
  cudaGraph_t captured_ = nullptr;  // until it is instantiated
  std::shared_ptr<CudaGraph> graph_;
  std::map<Dtype, ncclRedOp_t> premulsums_;  // operators of Redop::mulsum, made at their first use
  std::vector<Transfer> sends_;  // reused by operations that are made of sends and receives
  std::vector<Transfer> recvs_;
  std::vector<AwaitedSignals> awaited_;  // reused by `put`
  unsigned poll_count_ = 0;
};

}  // namespace busbw
