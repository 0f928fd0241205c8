#pragma once
// The ranks of a job as nodes and GPUs, which name the ends of flows. A rank is a GPU; on the host backend it is a host
// rank. A node is a host.
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

/// Location of one rank, which it reports to rank 0.
struct RankLocation {
  std::string host;
  std::string host_identity;  // distinguishes hosts of the same name; empty if the rank is lost
  std::optional<NetworkPort> port = {};
  std::string device_type = {};  // "NVIDIA H100"; empty if the rank is lost

  static auto members(auto& self) { return std::tie(self.host, self.host_identity, self.port, self.device_type); }
};

/// A network port of a node.
struct FlowNic {
  std::string name;
  std::vector<int> gpus;  // numbers on the node of the GPUs that use it
  std::optional<int> numa_node;
};

/// A host and its ranks.
struct FlowNode {
  std::string name;
  std::vector<int> ranks;
  std::vector<std::string> gpu_types = {};                // of each rank
  std::vector<std::optional<int>> gpu_numa_nodes = {};    // of each rank
  std::map<int, FlowNic> nics = {};  // by position; the rail is the order; empty if unknown
};

/// All nodes of a job.
class FlowCluster {
 public:
  /// `locations`: of all ranks, in rank order. Throws EnvironmentError if two hosts have the same name.
  explicit FlowCluster(const std::vector<RankLocation>& locations);

  const std::vector<FlowNode>& nodes() const { return nodes_; }
  /// True if the GPUs of the ranks that are not lost are of several types.
  bool has_unlike_gpus() const { return known_types_.size() > 1; }
  /// Converts ends to ranks. Throws UsageError if a node or GPU is unknown, a flow has one end, or a flow occurs twice.
  std::vector<Flow> flows_between(const std::vector<std::pair<FlowEnd, FlowEnd>>& ends) const;
  /// Converts lost ranks to ends.
  std::vector<LostGpu> lost_gpus(const std::map<int, Loss>& lost_ranks) const;

 private:
  int rank_of(const FlowEnd& end) const;

  std::vector<FlowNode> nodes_;
  std::set<std::string> known_types_;
};

}  // namespace busbw
