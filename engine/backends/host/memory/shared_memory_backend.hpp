#pragma once
// Host backend for ranks of one machine: threads and forked processes over shared memory. It needs no GPU.
#include <memory>
#include <string>

#include "backends/host/host_backend.hpp"
#include "backends/host/memory/workspace.hpp"

namespace busbw {

/// See Backend. All ranks share one Workspace, which `reserve` creates before the fork.
class SharedMemoryBackend final : public HostBackend {
 public:
  /// Layers number the communicators of a rank: `connect` creates layer 0, `connect_further` layers 1 to
  /// `further_layers`. `concurrent_layers`: see Workspace. `version` is the program's own version.
  SharedMemoryBackend(int processes, int threads_per_process, std::string version, int further_layers = 0,
                      int concurrent_layers = 1);

  std::size_t work_bytes(int ranks) const override {
    return Workspace::control_and_channel_bytes(ranks, layers_, concurrent_layers_);
  }
  /// Warns about fewer processors than ranks.
  std::vector<std::string> warnings() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;

 private:
  std::unique_ptr<Communicator> connect_layer(Team& world, Team& group, int layer) override;

  int processes_;
  int ranks_;
  int layers_;
  int concurrent_layers_;
  std::size_t cache_bytes_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace busbw
