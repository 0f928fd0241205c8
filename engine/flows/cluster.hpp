#pragma once
// A flow is data that one rank sends to another. Requests name its two ends by node and GPU; FlowCluster converts these
// to ranks. A node is a host. On the host backend, each rank counts as a GPU.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/registry.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// End of a flow.
struct FlowEnd {
  std::string node;
  int gpu = 0;  // number of the GPU on its node, in rank order
};

/// A GPU with a rank that no longer answers.
struct LostGpu {
  FlowEnd end;
  std::string reason;
};

/// Location of one rank. Each rank reports its location to rank 0.
struct RankLocation {
  std::string host;
  std::string host_identity;  // distinguishes hosts of the same name; empty if the rank is lost
  std::optional<NetworkPort> port = {};  // port that the rank uses; nothing if unknown
  std::string device_type = {};  // "NVIDIA H100"; empty if the rank is lost

  /// Members that `gather_values` sends.
  static auto members(auto& self) { return std::tie(self.host, self.host_identity, self.port, self.device_type); }
};

/// A network port of a node.
struct FlowNic {
  std::string name;
  std::vector<int> gpus;  // GPUs that use this port: FlowEnd::gpu of each
  std::optional<int> numa_node;
};

/// A host and its ranks.
struct FlowNode {
  std::string name;
  std::vector<int> ranks;
  std::vector<std::string> gpu_types = {};              // in the order of `ranks`
  std::vector<std::optional<int>> gpu_numa_nodes = {};  // in the order of `ranks`
  /// Ports by NetworkPort::position. Empty if the ports are unknown. A rail is a network that connects the same port of
  /// all nodes: the port at the first position belongs to rail 0, the next one to rail 1.
  std::map<int, FlowNic> nics = {};
};

/// All nodes of a job.
class FlowCluster {
 public:
  /// `locations`: one for each rank, in rank order. Throws EnvironmentError if two hosts have the same name.
  explicit FlowCluster(const std::vector<RankLocation>& locations);

  const std::vector<FlowNode>& nodes() const { return nodes_; }
  /// True if the GPUs of the ranks that are not lost have several types.
  bool has_unlike_gpus() const { return known_types_.size() > 1; }
  /// Converts ends to ranks. Throws UsageError if a node or GPU is unknown, if both ends of a flow are the same GPU, or
  /// if a flow occurs twice.
  std::vector<Flow> flows_between(const std::vector<std::pair<FlowEnd, FlowEnd>>& ends) const;
  /// Returns the GPUs of the lost ranks, with the reasons.
  std::vector<LostGpu> lost_gpus(const std::map<int, Loss>& lost_ranks) const;

 private:
  int rank_of(const FlowEnd& end) const;

  std::vector<FlowNode> nodes_;
  std::set<std::string> known_types_;  // GPU types of the ranks that are not lost
};

}  // namespace busbw
