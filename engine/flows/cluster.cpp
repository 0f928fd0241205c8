// Groups ranks by host, and converts between ranks and the ends of flows.
#include "flows/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {

FlowCluster::FlowCluster(const std::vector<RankLocation>& locations) {
  std::map<std::string, std::string> identity_of_host;
  for (std::size_t rank = 0; rank < locations.size(); ++rank) {
    const auto& [host, identity, port, type] = locations[rank];
    const bool is_lost = identity.empty();
    if (!is_lost) {
      const std::string& known_identity = identity_of_host.try_emplace(host, identity).first->second;
      if (known_identity != identity)
        throw EnvironmentError(fmt::format("two hosts have the name {}; give each host its own name", host));
    }
    auto node = std::ranges::find(nodes_, host, &FlowNode::name);
    if (node == nodes_.end()) node = nodes_.insert(nodes_.end(), FlowNode{.name = host, .ranks = {}});
    if (port) {
      const auto gpu = static_cast<int>(node->ranks.size());  // FlowEnd::gpu of this rank
      const auto nic = node->nics.try_emplace(port->position, port->name, std::vector<int>(), port->numa_node).first;
      nic->second.gpus.push_back(gpu);
    }
    node->ranks.push_back(static_cast<int>(rank));
    node->gpu_types.push_back(type);
    node->gpu_numa_nodes.push_back(port ? port->device_numa_node : std::nullopt);
    if (!type.empty()) known_types_.insert(type);
  }
}

int FlowCluster::rank_of(const FlowEnd& end) const {
  const auto node = std::ranges::find(nodes_, end.node, &FlowNode::name);
  if (node == nodes_.end())
    throw UsageError(fmt::format("node {} is unknown; use a node of the cluster", printable_value(end.node)));
  if (end.gpu >= static_cast<int>(node->ranks.size()))
    throw UsageError(fmt::format("node {} has no GPU {}; use 0 to {}", end.node, end.gpu, node->ranks.size() - 1));
  return node->ranks[static_cast<std::size_t>(end.gpu)];
}

std::vector<Flow> FlowCluster::flows_between(const std::vector<std::pair<FlowEnd, FlowEnd>>& ends) const {
  std::vector<Flow> flows;
  std::set<std::pair<int, int>> pairs;
  for (const auto& [from, to] : ends) {
    const Flow flow{rank_of(from), rank_of(to)};
    if (flow.sender == flow.receiver)
      throw UsageError(fmt::format("GPU {} of node {} sends to itself; use two GPUs", from.gpu, from.node));
    if (!pairs.emplace(flow.sender, flow.receiver).second)
      throw UsageError(fmt::format("GPU {} of node {} sends twice to GPU {} of node {}; send it once", from.gpu,
                                   from.node, to.gpu, to.node));
    flows.push_back(flow);
  }
  return flows;
}

std::vector<LostGpu> FlowCluster::lost_gpus(const std::map<int, Loss>& lost_ranks) const {
  std::vector<LostGpu> gpus;
  for (const FlowNode& node : nodes_)
    for (std::size_t gpu = 0; gpu < node.ranks.size(); ++gpu)
      if (const auto lost = lost_ranks.find(node.ranks[gpu]); lost != lost_ranks.end())
        gpus.push_back({{node.name, static_cast<int>(gpu)}, lost->second.reason});
  return gpus;
}

}  // namespace busbw
