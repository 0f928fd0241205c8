#pragma once
// The communicators of a replay program that one rank belongs to.
#include <map>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "replay/replay_program.hpp"

namespace busbw {

/// Layer of each communicator for Backend::connect_further, from 1 on. Communicators of one layer have no ranks in
/// common.
std::vector<int> communicator_layers(const ReplayProgram& program);
int layer_count(const ReplayProgram& program);

/// This rank's handles to its communicators: the first one, of all ranks, and those of the program. A communicator of
/// the program has its ranks in ascending order.
class ReplayCommunicators {
 public:
  /// `first`: the communicator of all ranks, from Backend::connect. Connects those of the program layer by layer, so
  /// that no rank waits for a communicator that other ranks join later. All ranks of `world` must call this
  /// constructor. All arguments must outlive this object.
  ReplayCommunicators(const ReplayProgram& program, Backend& backend, Team& world, Communicator& first);

  /// The communicator of all ranks. It owns the buffers, and has no index in the program.
  Communicator& first() const { return first_; }
  /// Returns a communicator of the program by its index. Null if the rank is not a member.
  Communicator* find(int communicator) const {
    const auto entry = communicators_.find(communicator);
    return entry == communicators_.end() ? nullptr : entry->second.get();
  }
  /// Calls `visit` for all communicators of the program that have this rank.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [index, communicator] : communicators_) visit(*communicator);
  }

 private:
  Communicator& first_;
  std::vector<std::unique_ptr<Team>> teams_;  // before communicators_, so that the teams are destroyed after them
  std::map<int, std::unique_ptr<Communicator>> communicators_;
};

}  // namespace busbw
