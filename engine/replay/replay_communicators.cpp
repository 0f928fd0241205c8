// Connects the communicators of a replay program in layers, in which no rank occurs twice.
#include "replay/replay_communicators.hpp"

#include <algorithm>
#include <set>

namespace busbw {

std::vector<int> communicator_layers(const ReplayProgram& program) {
  std::vector<std::set<int>> layers_of_rank(program.operations.size());
  std::vector<int> layers;
  for (const auto& members : program.communicators) {
    int layer = 1;
    const auto is_in_layer = [&](int rank) { return layers_of_rank[static_cast<std::size_t>(rank)].contains(layer); };
    while (std::ranges::any_of(members, is_in_layer)) ++layer;
    for (const int rank : members) layers_of_rank[static_cast<std::size_t>(rank)].insert(layer);
    layers.push_back(layer);
  }
  return layers;
}

int layer_count(const ReplayProgram& program) {
  const std::vector<int> layers = communicator_layers(program);
  return layers.empty() ? 0 : std::ranges::max(layers);
}

ReplayCommunicators::ReplayCommunicators(const ReplayProgram& program, Backend& backend, Team& world,
                                         Communicator& first)
    : first_(first) {
  const std::vector<int> layers = communicator_layers(program);
  const int outside = static_cast<int>(layers.size());  // color of the ranks without a communicator in a layer
  for (int layer = 1; layer <= layer_count(program); ++layer) {
    int own = outside;  // the communicator of this rank in the layer
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::vector<int>& members = program.communicators[i];
      const bool is_member = std::ranges::find(members, world.rank()) != members.end();
      if (layers[i] == layer && is_member) own = static_cast<int>(i);
    }
    auto team = world.split(own);
    if (own == outside) continue;
    communicators_[own] = backend.connect_further(world, *team, first, layer);
    teams_.push_back(std::move(team));
  }
  world.barrier();
}

}  // namespace busbw
