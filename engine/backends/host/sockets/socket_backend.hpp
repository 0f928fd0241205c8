#pragma once
// Host backend for processes that were started separately, on one or several hosts. Ranks use their process's memory
// and exchange data over TCP.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "backends/host/rank_buffers.hpp"
#include "common/os/network.hpp"

namespace busbw {

/// See Backend. Each communicator has TCP connections of its own.
class SocketBackend final : public HostBackend {
 public:
  /// This process runs ranks `first_rank` to `first_rank + ranks - 1` of the job. `version` is the program's own
  /// version. Reads BUSBW_SOCKET_IFNAME and throws UsageError if no interface matches it. `first_on_host`: position of
  /// `first_rank` among the ranks of its host. If it is set, as by `busbw-engine flows`, each rank uses one network
  /// interface, and the ranks of a host take its interfaces in turn. Otherwise each rank uses all interfaces.
  SocketBackend(int first_rank, int ranks, std::string version, std::optional<int> first_on_host = {});

  std::size_t work_bytes(int ranks) const override;
  std::optional<NetworkPort> network_port(int index) const override;
  /// The transport and, after ranks are connected, the local addresses that they use.
  std::vector<std::pair<std::string, std::string>> facts() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;

 private:
  /// Makes new connections for each communicator, so it ignores `layer`. For flows, `group` must be `world`. Throws the
  /// errors of SocketMesh.
  std::unique_ptr<Communicator> connect_layer(Team& world, Team& group, int layer) override;
  void add_used_interfaces(const std::vector<Interface>& interfaces);

  int first_rank_;
  int ranks_;
  std::optional<int> first_on_host_;
  std::vector<Interface> interfaces_;
  std::unique_ptr<RankBuffers> buffers_;
  mutable std::mutex mutex_;
  std::size_t connection_count_ = 0;        // of all ranks of this process so far
  std::vector<Interface> used_interfaces_;  // of the connections so far, added by the ranks' threads
};

}  // namespace busbw
