#include "measure/gate_capacity.hpp"

#include <algorithm>

namespace busbw {
namespace {

// Operations and stamps of a graph that take the gate's room of one operation. A stream takes about 1,000 launches, and
// no one says that a graph needs less room; gates that have 40 keep clear of that with launches, which may be several
// each.
constexpr std::size_t kGraphPerRoom = 25;

std::size_t left_of(std::size_t room, std::size_t taken) { return room <= taken ? 0 : room - taken; }

}  // namespace

std::size_t GateCapacity::iterations() const {
  return std::min(calls_.iterations, left_of(room_, calls_.per_operation + 2) / calls_.per_iteration);
}

std::size_t GateCapacity::stamped_iterations() const {
  return left_of(room_, calls_.per_operation + 1) / (calls_.per_iteration + 1);
}

bool GateCapacity::fits_graph() const {
  return room_ > calls_.per_operation + 2 && takes_nodes(calls_.iterations * calls_.per_iteration);
}

bool GateCapacity::fits_timestamped_graph() const {
  const std::size_t stamps = calls_.iterations + 1;
  return room_ > calls_.per_operation && takes_nodes(calls_.iterations * calls_.per_iteration + stamps);
}

bool GateCapacity::takes_nodes(std::size_t nodes) const { return nodes <= kGraphPerRoom * room_; }

}  // namespace busbw
