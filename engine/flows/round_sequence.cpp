// Decides after each round which pairs have failed, and which flows run again, separate from the others.
#include "flows/round_sequence.hpp"

#include <algorithm>
#include <iterator>

namespace busbw {
namespace {

bool has_other_peer(const std::map<int, int>& peer_of, int rank, int peer) {
  const auto entry = peer_of.find(rank);
  return entry != peer_of.end() && entry->second != peer;
}

/// True if no rank has two peers after the flow is added to a round. `peer_of`: peer of each rank in the round.
bool fits_into_round(const std::map<int, int>& peer_of, const Flow& flow) {
  return !has_other_peer(peer_of, flow.sender, flow.receiver) && !has_other_peer(peer_of, flow.receiver, flow.sender);
}

/// Divides flows into rounds in which each rank has only one peer: 0->1, 1->0, 1->2 into {0->1, 1->0} and {1->2}.
std::vector<std::vector<Flow>> one_peer_rounds(const std::vector<Flow>& flows) {
  std::vector<std::vector<Flow>> rounds;
  std::vector<std::map<int, int>> peers;  // [round]: peer of each rank
  for (const Flow& flow : flows) {
    std::size_t round = 0;
    while (round < rounds.size() && !fits_into_round(peers[round], flow)) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      peers.emplace_back();
    }
    rounds[round].push_back(flow);
    peers[round][flow.sender] = flow.receiver;
    peers[round][flow.receiver] = flow.sender;
  }
  return rounds;
}

/// Returns the failures of pairs in which neither rank has another failure.
FailedPairs isolated_failures(const FailedPairs& failures) {
  std::map<int, int> failure_counts;  // by rank
  for (const auto& [pair, reason] : failures) {
    ++failure_counts[pair.first];
    ++failure_counts[pair.second];
  }
  FailedPairs isolated = failures;
  std::erase_if(isolated, [&](const auto& failure) {
    const auto& [first, second] = failure.first;
    return failure_counts[first] > 1 || failure_counts[second] > 1;
  });
  return isolated;
}

/// Returns the flows between the ranks of these pairs.
std::vector<Flow> flows_of_pairs(const std::vector<Flow>& flows, const FailedPairs& pairs) {
  std::vector<Flow> selected;
  std::ranges::copy_if(flows, std::back_inserter(selected),
                       [&](const Flow& flow) { return pairs.contains(pair_of(flow)); });
  return selected;
}

}  // namespace

std::pair<int, int> pair_of(const Flow& flow) { return std::minmax(flow.sender, flow.receiver); }

FailedPairs RoundSequence::failures_of_round(const FailedPairs& failures) const {
  FailedPairs failures_of_round;
  for (const Flow& flow : next_round())
    if (const auto failure = failures.find(pair_of(flow)); failure != failures.end())
      failures_of_round.insert(*failure);
  return failures_of_round;
}

FailedPairs RoundSequence::finish_round(const FailedPairs& failures) {
  const std::vector<Flow> round = next_round();
  // The last round has all flows. After a failure, it runs again without the flows that have failed.
  const bool is_last_round = rounds_.size() == 1;
  const bool must_repeat = is_last_round && !failures.empty();
  if (!must_repeat) rounds_.erase(rounds_.begin());
  FailedPairs isolated = isolated_failures(failures);  // the pairs that count as failed
  if (!isolated.empty()) separated_.clear();
  FailedPairs undecided = failures;
  std::erase_if(undecided, [&](const auto& failure) { return isolated.contains(failure.first); });
  FailedPairs never_separate = undecided;
  std::erase_if(never_separate, [&](const auto& failure) { return separated_.contains(failure.first); });
  if (never_separate.empty()) {
    // Each of these pairs has succeeded in a separate round.
    for (const auto& [pair, reason] : undecided)
      joint_failures_.emplace(pair, reason + "; only together with other flows of the round");
  } else {
    const auto separate_rounds = one_peer_rounds(flows_of_pairs(round, never_separate));
    rounds_.insert(rounds_.begin(), separate_rounds.begin(), separate_rounds.end());
    for (const auto& [pair, reason] : never_separate) separated_.insert(pair);
  }
  remove_flows(
      [&](const Flow& flow) { return isolated.contains(pair_of(flow)) || joint_failures_.contains(pair_of(flow)); });
  return isolated;
}

void RoundSequence::remove_flows(const std::function<bool(const Flow&)>& is_removed) {
  for (auto& round : rounds_) std::erase_if(round, is_removed);
  std::erase_if(rounds_, [](const auto& round) { return round.empty(); });
}

}  // namespace busbw
