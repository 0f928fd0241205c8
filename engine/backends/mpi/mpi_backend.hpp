#pragma once
// A backend that measures an MPI library's own collectives on host memory: one rank in each process.
#include <memory>
#include <optional>

#include "backends/backend.hpp"
#include "backends/faults.hpp"
#include "backends/host/rank_buffers.hpp"
#include "backends/mpi/mpi_reduction.hpp"

namespace busbw {

class MpiBackend final : public Backend {
 public:
  /// Create it after `init_mpi`. `local_rank`: rank among the processes of this host.
  MpiBackend(int local_rank, Faults faults);
  /// Finalizes MPI if all ranks have completed.
  ~MpiBackend() override;

  std::string name() const override { return "mpi"; }
  std::string version() const override;
  Device device(int index) const override;
  /// Leaves memory for MPI's reductions, which allocate as much as a buffer, and for scratch memory.
  std::size_t available_bytes(int ranks) const override;
  std::size_t work_bytes(int) const override { return 0; }
  std::vector<std::pair<std::string, std::string>> facts() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;
  void enter(Phase phase, int world_rank) override { trigger_faults(faults_, phase, world_rank); }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override;

 private:
  int local_rank_;
  Faults faults_;
  bool completed_ = false;
  std::string library_;  // text of MPI_Get_library_version
  std::string cpu_name_;
  MpiOperators operators_;
  std::size_t buffer_bytes_ = 0;
  std::optional<RankBuffers> memory_;  // scratch memory lies in front
};

}  // namespace busbw
