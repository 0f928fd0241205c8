// Counts the calls, timestamps and graph nodes of a batch against the capacity of a gate. Calls are weighted
// (all_peers_call_weight in collectives/collective.hpp).
#include "measure/sampling/gate_capacity.hpp"

#include <algorithm>

namespace busbw {
namespace {

// Maximum number of nodes (operations and timestamps) of one graph, for each operation of the gate's capacity. A stream
// accepts about 1,000 launches, and no document says that graph nodes take less. Gates have a capacity of at most 40
// (NcclCommunicator::capacity), so a graph behind a gate has at most 1,000 nodes.
constexpr std::size_t kGraphNodesPerOperation = 25;
// One timestamp before and one after all iterations.
constexpr std::size_t kOuterTimestamps = 2;

/// Capacity that is left after `used`, at least 0.
std::size_t remaining(std::size_t capacity, std::size_t used) { return capacity <= used ? 0 : capacity - used; }

}  // namespace

std::size_t GateCapacity::iterations() const {
  return std::min(calls_.iterations, remaining(capacity_, calls_.per_run + kOuterTimestamps) / calls_.per_iteration);
}

std::size_t GateCapacity::timestamped_iterations() const {
  return remaining(capacity_, calls_.per_run + 1) / (calls_.per_iteration + 1);
}

bool GateCapacity::fits_graph() const {
  // More than the run and the timestamps need, because the launch of the graph counts as an operation.
  return capacity_ > calls_.per_run + kOuterTimestamps && fits_nodes(calls_.iterations * calls_.per_iteration);
}

bool GateCapacity::fits_timestamped_graph() const {
  const std::size_t timestamps = calls_.iterations + 1;
  return capacity_ > calls_.per_run && fits_nodes(calls_.iterations * calls_.per_iteration + timestamps);
}

bool GateCapacity::fits_nodes(std::size_t nodes) const { return nodes <= kGraphNodesPerOperation * capacity_; }

}  // namespace busbw
