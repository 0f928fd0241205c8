// Order of the rounds of a request, and the pairs that are found to have failed.
#include "flows/round_sequence.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace busbw;

namespace {

using Pair = std::pair<int, int>;

std::vector<Flow> flows_of(const std::vector<Pair>& pairs) {
  std::vector<Flow> flows;
  for (const auto& [sender, receiver] : pairs) flows.push_back({sender, receiver});
  return flows;
}

std::vector<Pair> pairs_of(const std::vector<Flow>& flows) {
  std::vector<Pair> pairs;
  for (const Flow& flow : flows) pairs.emplace_back(flow.sender, flow.receiver);
  return pairs;
}

/// Pairs that ranks report if the `dead` ones move no data: each rank reports its peers if it waits, directly or
/// through other ranks, for a dead pair.
FailedPairs stalled_pairs(const std::vector<Flow>& flows, const std::set<Pair>& dead) {
  std::set<int> waiting;
  for (const Flow& flow : flows)
    if (dead.contains(pair_of(flow))) waiting.insert({flow.sender, flow.receiver});
  for (std::size_t before = 0; before != waiting.size();) {
    before = waiting.size();
    for (const Flow& flow : flows)
      if (waiting.contains(flow.sender) || waiting.contains(flow.receiver))
        waiting.insert({flow.sender, flow.receiver});
  }
  FailedPairs stalled;
  for (const Flow& flow : flows)
    if (waiting.contains(flow.sender)) stalled.emplace(pair_of(flow), "timed out");
  return stalled;
}

/// Runs a sequence to its end. Returns the failed pairs, and counts the rounds.
std::set<Pair> run_sequence(RoundSequence& sequence, const std::set<Pair>& dead, int& rounds) {
  std::set<Pair> failed;
  for (rounds = 0; !sequence.has_ended() && rounds < 100; ++rounds)
    for (const auto& [pair, reason] : sequence.finish_round(stalled_pairs(sequence.next_round(), dead)))
      failed.insert(pair);
  return failed;
}

}  // namespace

TEST_CASE("RoundSequence: one round if nothing fails") {
  RoundSequence sequence(flows_of({{0, 1}, {1, 2}}));
  CHECK(!sequence.has_ended());
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{0, 1}, {1, 2}});
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.has_ended());
  CHECK(RoundSequence().has_ended());
}

TEST_CASE("RoundSequence: a pair without other failures has failed at once") {
  RoundSequence sequence(flows_of({{0, 1}, {1, 0}, {2, 3}}));
  CHECK(sequence.finish_round({{{0, 1}, "dead"}}) == FailedPairs{{{0, 1}, "dead"}});
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{2, 3}});
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.has_ended());
}

TEST_CASE("RoundSequence: only dead pairs fail, although healthy ones wait for them") {
  struct Case {
    std::vector<Pair> flows;
    std::set<Pair> dead;
    int max_rounds;
  };
  for (const Case& one : std::vector<Case>{
           {{{0, 1}, {1, 2}, {2, 3}}, {{2, 3}}, 4},                      // a chain
           {{{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}}, {{0, 3}}, 4},      // a ring
           {{{0, 1}, {0, 2}, {0, 3}, {0, 4}}, {{0, 3}}, 6},              // a hub
           {{{1, 0}, {2, 0}, {3, 0}}, {{0, 1}, {0, 2}, {0, 3}}, 5},      // all of a hub
           {{{0, 1}, {1, 2}, {2, 0}, {3, 4}}, {{0, 1}, {3, 4}}, 6},      // two, one of them alone
       }) {
    RoundSequence sequence(flows_of(one.flows));
    int rounds = 0;
    CHECK(run_sequence(sequence, one.dead, rounds) == one.dead);
    CHECK(rounds <= one.max_rounds);
    CHECK(sequence.has_ended());
    CHECK(sequence.joint_failures().empty());
  }
}

TEST_CASE("RoundSequence: flows that fail only together end the request without accusing a pair") {
  RoundSequence sequence(flows_of({{0, 1}, {1, 2}, {3, 4}}));
  const FailedPairs both{{{0, 1}, "timed out"}, {{1, 2}, "timed out"}};
  CHECK(sequence.finish_round(both).empty());
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.finish_round({}).empty());
  REQUIRE(pairs_of(sequence.next_round()) == std::vector<Pair>{{0, 1}, {1, 2}, {3, 4}});
  CHECK(sequence.finish_round(both).empty());
  CHECK(sequence.joint_failures().at({0, 1}) == "timed out; only together with other flows of the round");
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{3, 4}});
}

TEST_CASE("RoundSequence: a pair fails only together with others if it has succeeded in a separate round") {
  RoundSequence sequence(flows_of({{0, 1}, {1, 2}, {3, 4}, {4, 5}}));
  CHECK(sequence.finish_round({{{0, 1}, "timed out"}, {{1, 2}, "timed out"}}).empty());
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.finish_round({}).empty());
  // 3-4 and 4-5 fail for the first time in the repeated round of all flows. 4-5 is dead.
  const FailedPairs others{{{3, 4}, "timed out"}, {{4, 5}, "timed out"}};
  CHECK(sequence.finish_round(others).empty());
  CHECK(sequence.joint_failures().empty());
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{3, 4}});
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.finish_round({{{4, 5}, "timed out"}}) == FailedPairs{{{4, 5}, "timed out"}});
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{0, 1}, {1, 2}, {3, 4}});
  CHECK(sequence.finish_round({}).empty());
  CHECK(sequence.has_ended());
}

TEST_CASE("RoundSequence: failures count only for pairs of the round; removed flows are in no round") {
  RoundSequence sequence(flows_of({{0, 1}, {1, 2}, {2, 3}}));
  const FailedPairs reported{{{0, 1}, "a"}, {{1, 2}, "b"}, {{5, 6}, "c"}};
  CHECK(sequence.failures_of_round(reported) == FailedPairs{{{0, 1}, "a"}, {{1, 2}, "b"}});
  CHECK(sequence.finish_round(sequence.failures_of_round(reported)).empty());
  CHECK(sequence.failures_of_round(reported).size() == 1);
  sequence.remove_flows([](const Flow& flow) { return flow.sender == 1 || flow.receiver == 1; });
  CHECK(pairs_of(sequence.next_round()) == std::vector<Pair>{{2, 3}});
  sequence.remove_flows([](const Flow&) { return true; });
  CHECK(sequence.has_ended());
}
