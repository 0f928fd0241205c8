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
struct DeviceSeat {
  int device;
  std::string where;  // "rank 3 on GPU 0000:0f:00"
  int rank;           // in the communicator
  int ranks;
  cudaStream_t stream;
  const std::vector<Event>& stamps;
  const DeviceComm* kernel;  // what runs instead of NCCL's operation; null without -D
};

class NcclLauncher final : public Launcher {
 public:
  /// All must outlive this.
  NcclLauncher(const NcclLibrary& library, const NcclComm& comm, DeviceSeat seat, CudaGate& gate);
  ~NcclLauncher() override;
  NcclLauncher(const NcclLauncher&) = delete;
  NcclLauncher& operator=(const NcclLauncher&) = delete;

  void run(const Launch&) override;
  void begin_joint() override;
  void end_joint() override;
  void abandon_joint() noexcept override;
  bool finished() override;
  void recover() noexcept override;

  /// What the last end_recording made; once.
  std::shared_ptr<Graph> take_graph() { return std::move(graph_); }

 private:
  void call(const Launch&);
  void run_kernel(const Launch&);
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype);
  void gather(const Launch&);
  void scatter(const Launch&);
  void alltoall(const Launch&);
  void stamp(std::size_t number);
  void begin_recording();
  void end_recording();
  void make_ready();
  ncclRedOp_t redop_of(Redop redop, Dtype dtype);

  const NcclFunctions& call_;
  const NcclComm& comm_;
  DeviceSeat seat_;
  CudaGate& gate_;
  bool recording_ = false;
  cudaGraph_t recorded_ = nullptr;  // until it is made ready
  std::shared_ptr<Graph> graph_;
  std::map<Dtype, ncclRedOp_t> premulsums_;
  std::vector<Transfer> sends_;  // of the operations that are made of them
  std::vector<Transfer> recvs_;
  unsigned looks_ = 0;
};

}  // namespace busbw
