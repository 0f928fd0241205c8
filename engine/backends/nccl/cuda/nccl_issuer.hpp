#pragma once
// Carries out on one GPU what a rank wants done: calls of NCCL and CUDA, nothing else.
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

/// A rank's things on its GPU, all of them owned by its communicator.
struct RankResources {
  int device;
  std::string where;  // "rank 3 on GPU 0000:0f:00"
  int rank;           // in the communicator
  int ranks;
  cudaStream_t stream;
  const std::vector<CudaEvent>& stamps;
  const DeviceComm* kernel;  // what runs instead of NCCL's operation; null without -D
};

class NcclIssuer final : public OperationIssuer {
 public:
  /// All must outlive this.
  NcclIssuer(const NcclLibrary& library, const NcclComm& comm, RankResources seat, CudaGate& gate);
  ~NcclIssuer() override;
  NcclIssuer(const NcclIssuer&) = delete;
  NcclIssuer& operator=(const NcclIssuer&) = delete;

  void run(const IssueRequest&) override;
  void begin_nccl_group() override;
  void end_nccl_group() override;
  void abort_nccl_group() noexcept override;
  bool finished() override;
  void recover() noexcept override;

  /// What the last end_recording made; once.
  std::shared_ptr<CudaGraph> take_graph() { return std::move(graph_); }

 private:
  void call(const IssueRequest&);
  void run_kernel(const IssueRequest&);
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype);
  void gather(const IssueRequest&);
  void scatter(const IssueRequest&);
  void alltoall(const IssueRequest&);
  void stamp(std::size_t number);
  void begin_recording();
  void end_recording();
  void make_ready();
  ncclRedOp_t redop_of(Redop redop, Dtype dtype);

  const NcclFunctions& call_;
  const NcclComm& comm_;
  RankResources seat_;
  CudaGate& gate_;
  bool recording_ = false;
  cudaGraph_t recorded_ = nullptr;  // until it is made ready
  std::shared_ptr<CudaGraph> graph_;
  std::map<Dtype, ncclRedOp_t> premulsums_;
  std::vector<Transfer> sends_;  // of the operations that are made of them
  std::vector<Transfer> recvs_;
  unsigned poll_count_ = 0;
};

}  // namespace busbw
