#pragma once
// Host backend for processes that were started separately, on one or several hosts. Ranks use their process's memory
// and exchange data over TCP.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/host/host_hardware.hpp"
#include "backends/host/host_lifecycle.hpp"
#include "backends/host/host_traits.hpp"
#include "backends/host/rank_buffers.hpp"
#include "common/os/network.hpp"

namespace busbw {

/// See Backend. Each communicator has TCP connections of its own.
class SocketBackend final : public Backend {
 public:
  /// This process runs ranks `first_rank` to `first_rank + ranks - 1` of the job. `version` is the program's own
  /// version. Reads BUSBW_SOCKET_IFNAME and throws UsageError if no interface matches it. `first_on_host`: position of
  /// `first_rank` among the ranks of its host, only for flows. Each rank of flows uses one network interface, and the
  /// ranks of a host take its interfaces in turn. If empty, each rank uses all interfaces.
  SocketBackend(int first_rank, int ranks, std::string version, std::optional<int> first_on_host = {});

  const BackendTraits& traits() const override { return kHostTraits; }
  std::string version() const override { return version_; }
  Device device(int index) const override { return {index, "cpu", cpu_name_}; }
  std::size_t available_bytes(int /*ranks*/) const override { return available_memory_bytes(); }
  std::size_t work_bytes(int ranks) const override;
  std::optional<NetworkPort> network_port(int index) const override;
  /// The transport and, after ranks are connected, the local addresses that they use.
  std::vector<std::pair<std::string, std::string>> facts() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;
  /// `world` and this backend must outlive the communicator. For flows, `group` must be `world`. Throws the errors of
  /// SocketMesh.
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override;
  std::unique_ptr<Communicator> connect_further(Team& world, Team& group, Communicator& /*first*/,
                                                int /*layer*/) override {
    return connect(world, group);
  }
  std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team& world) override {
    return make_host_lifecycle([this, &world](Team& team, bool /*is_derived*/) { return connect(world, team); });
  }
  std::string missing_lifecycle_call(CreationKind /*kind*/, LifecycleCall call) const override {
    return missing_host_lifecycle_call(call);
  }

 private:
  void add_used_interfaces(const std::vector<Interface>& interfaces);

  int first_rank_;
  int ranks_;
  std::string version_;
  std::optional<int> first_on_host_;
  std::vector<Interface> interfaces_;
  std::string cpu_name_;
  std::unique_ptr<RankBuffers> buffers_;
  mutable std::mutex mutex_;
  std::size_t connection_count_ = 0;        // of all ranks of this process so far
  std::vector<Interface> used_interfaces_;  // of the connections so far, added by the ranks' threads
};

}  // namespace busbw
