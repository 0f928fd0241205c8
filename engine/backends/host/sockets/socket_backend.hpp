#pragma once
// The host backend between processes that were started apart, on one host or on several: ranks in this process's
// memory, their data over TCP.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/faults.hpp"
#include "backends/host/rank_buffers.hpp"
#include "common/os/network.hpp"

namespace busbw {

class SocketBackend final : public Backend {
 public:
  /// This process holds the world's ranks `first_rank` to `first_rank + ranks - 1`. `version` is the program's own.
  /// Looks at BUSBW_SOCKET_IFNAME; throws UsageError where no interface fits it.
  SocketBackend(int first_rank, int ranks, std::string version, Faults faults = {});

  std::string name() const override { return "host"; }
  std::string version() const override { return version_; }
  Device device(int index) const override;
  std::size_t available_bytes(int ranks) const override;
  std::size_t work_bytes(int ranks) const override;
  /// The transport and, once ranks are connected, over which addresses of this host.
  std::vector<std::pair<std::string, std::string>> facts() const override;
  void reserve(int ranks, std::size_t buffer_bytes) override;
  void enter(Phase phase, int world_rank) override { trigger_faults(faults_, phase, world_rank); }
  /// One communicator at a time for each rank. `world` and this must outlive it. Throws UsageError when a fault names a
  /// rank that does not exist, and what SocketMesh throws.
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override;

 private:
  void remember(const std::vector<Interface>& local_ends);

  int first_rank_;
  int ranks_;
  std::string version_;
  Faults faults_;
  std::vector<Interface> interfaces_;
  std::string cpu_name_;
  std::unique_ptr<RankBuffers> buffers_;
  mutable std::mutex mutex_;
  std::vector<Interface> used_;  // by the ranks' threads
};

}  // namespace busbw
