#pragma once
// Host backend for ranks of one machine: threads and forked processes over shared memory. It needs no GPU.
#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "backends/host/host_hardware.hpp"
#include "backends/host/host_lifecycle.hpp"
#include "backends/host/host_traits.hpp"
#include "backends/host/memory/workspace.hpp"

namespace busbw {

/// See Backend. All ranks share one Workspace, which `reserve` creates before the fork.
class SharedMemoryBackend final : public Backend {
 public:
  /// A layer is the number of one of a rank's communicators. `connect` creates layer 0, `connect_further` layers 1 to
  /// `further_layers`. `concurrent_layers`: see Workspace. `version` is the program's own version.
  SharedMemoryBackend(int processes, int threads_per_process, std::string version, int further_layers = 0,
                      int concurrent_layers = 1);

  const BackendTraits& traits() const override { return kHostTraits; }
  std::string version() const override { return version_; }
  Device device(int local_rank) const override { return {local_rank, "cpu", cpu_name_}; }
  std::size_t available_bytes(int /*ranks*/) const override { return available_memory_bytes(); }
  std::size_t work_bytes(int ranks) const override {
    return Workspace::control_and_channel_bytes(ranks, layers_, concurrent_layers_);
  }
  /// Warns about fewer processors than ranks.
  std::vector<std::string> warnings() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;
  /// Each rank can have one communicator of each layer at a time. `world` and this backend must outlive it.
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override { return connect_layer(world, group, 0); }
  std::unique_ptr<Communicator> connect_further(Team& world, Team& group, Communicator& /*first*/, int layer) override {
    return connect_layer(world, group, layer);
  }
  /// A communicator with a parent is in layer 1, because its ranks keep the parent in layer 0.
  std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team& world) override;
  std::string missing_lifecycle_call(CreationKind /*kind*/, LifecycleCall call) const override {
    return missing_host_lifecycle_call(call);
  }

 private:
  std::unique_ptr<Communicator> connect_layer(Team& world, Team& group, int layer);

  int processes_;
  int ranks_;
  int layers_;
  int concurrent_layers_;
  std::string version_;
  std::string cpu_name_;
  std::size_t cache_bytes_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace busbw
