#include "rendezvous/team/barrier.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/host/rank_buffers.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

constexpr int kRounds = 500;

/// A barrier and a plain counter per rank. Writes before the barrier must be visible to all ranks after it.
struct SharedCounts {
  Barrier barrier;
  int rounds_of[8] = {};
};

std::string pass_rounds(SharedCounts& shared, Team& team) {
  for (int round = 1; round <= kRounds; ++round) {
    shared.rounds_of[team.rank()] = round;
    shared.barrier.arrive_and_wait(team.size(), team);
    for (int peer = 0; peer < team.size(); ++peer) {
      if (shared.rounds_of[peer] != round) return "rank " + std::to_string(peer) + " was not waited for; ";
    }
    shared.barrier.arrive_and_wait(team.size(), team);
  }
  return {};
}

/// A member of two. Its check for an abort is followed by the arrival of the other member and then by the abort.
class TeamAbortedAfterBarrier final : public Team {
 public:
  explicit TeamAbortedAfterBarrier(Barrier& barrier) : barrier_(barrier) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  bool aborted() const override {
    if (!std::exchange(other_has_arrived_, true)) barrier_.arrive_and_wait(size(), *this);
    return true;
  }
  void barrier() override { barrier_.arrive_and_wait(size(), *this); }
  std::vector<Bytes> gather(std::span<const std::byte>) override { return {}; }
  Bytes broadcast(std::span<const std::byte>) override { return {}; }
  std::unique_ptr<Team> split(int) override { return {}; }
  void enter(Phase) override {}
  IssuedOperations& issued() override { return issued_; }

 private:
  Barrier& barrier_;
  mutable bool other_has_arrived_ = false;
  IssuedOperations issued_;
};

}  // namespace

TEST_CASE("Barrier: no rank passes before all have arrived, also with more ranks than cores") {
  for (const int ranks : {1, 2, 3, 8}) {
    SharedCounts shared;
    CHECK(run_threads(ranks, [&](Team& team) { return pass_rounds(shared, team); }) == "");
  }
}

TEST_CASE("Barrier: processes") {
  const RankBuffers memory(1, 0, RankBuffers::page_aligned(sizeof(SharedCounts)), Sharing::processes);
  SharedCounts& shared = *new (memory.front()) SharedCounts;
  CHECK(run_processes(4, 1, [&](Team& team) { return pass_rounds(shared, team); }) == "");
}

TEST_CASE("Barrier: an abort ends the wait for a missing rank") {
  Barrier barrier;
  const auto teams = ThreadTeam::make(2);
  bool ended = false;
  std::thread waits([&] {
    try {
      barrier.arrive_and_wait(2, *teams[0]);
    } catch (const JobAborted&) {
      ended = true;
    }
  });
  teams[1]->abort();
  waits.join();
  CHECK(ended);
}

TEST_CASE("Barrier: passes after all have arrived, even if the abort is detected first") {
  Barrier barrier;
  TeamAbortedAfterBarrier team(barrier);
  CHECK_NOTHROW(team.barrier());
  CHECK_THROWS_AS(team.barrier(), JobAborted);
}
