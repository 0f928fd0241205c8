#pragma once
// Order of the rounds that measure the flows of one request. The flows of a round run at the same time. Rounds follow
// until each flow has either times or a failure.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.hpp"

namespace busbw {

/// Reason of each failure, by the two ranks of a flow, the lower one first.
using FailedPairs = std::map<std::pair<int, int>, std::string>;

/// Returns the two ranks of a flow, the lower one first.
std::pair<int, int> pair_of(const Flow& flow);

/// First, all flows run in one round. A rank that waits for a peer in vain also keeps its other peers waiting, and
/// these peers report failures too. If 1-2 is dead, 0->1 and 1->2 both fail. So a pair counts as failed only if neither
/// of its ranks has another failure. The other reported pairs run again in separate rounds, in which each rank has one
/// peer. Then all flows that have not failed run in one round again.
class RoundSequence {
 public:
  /// Makes a sequence without rounds, which has ended.
  RoundSequence() = default;
  explicit RoundSequence(std::vector<Flow> flows) : rounds_{std::move(flows)} {}

  bool has_ended() const { return rounds_.empty(); }
  /// Flows of the next round. Call it only if the sequence has not ended.
  const std::vector<Flow>& next_round() const { return rounds_.front(); }
  /// Returns the `failures` that belong to pairs of the next round.
  FailedPairs failures_of_round(const FailedPairs& failures) const;
  /// Call it after the next round was measured. `failures`: pairs of this round that a rank has reported. Returns those
  /// that count as failed, and decides about the following rounds.
  FailedPairs finish_round(const FailedPairs& failures);
  /// Removes flows from all rounds.
  void remove_flows(const std::function<bool(const Flow&)>& is_removed);
  /// Pairs that fail only together with other flows of the request.
  const FailedPairs& joint_failures() const { return joint_failures_; }

 private:
  std::vector<std::vector<Flow>> rounds_;  // the next round first; the last round has all flows
  std::set<std::pair<int, int>> separated_;  // pairs with a separate round since the last pair counted as failed
  FailedPairs joint_failures_;
};

}  // namespace busbw
