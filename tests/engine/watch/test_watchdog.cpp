#include "watch/watchdog.hpp"

#include <doctest/doctest.h>

#include "rendezvous/team/local_job.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// A job with ranks that step on request. The tests pass the time as an argument.
struct SteppedJob {
  explicit SteppedJob(int ranks) : job(ranks) {
    for (int rank = 0; rank < ranks; ++rank) teams.push_back(job.team(rank));
  }
  void step(std::initializer_list<int> ranks, Phase phase = Phase::timing) {
    for (const int rank : ranks) teams[static_cast<std::size_t>(rank)]->enter(phase);
  }
  LocalJob job;
  std::vector<std::unique_ptr<Team>> teams;
};

/// A job of four ranks in a given state.
struct FakeJob final : Job {
  int ranks() const override { return 4; }
  std::unique_ptr<Team> team(int /*rank*/) override { return nullptr; }
  void abort(ExitCode /*exit*/, const std::string& /*message*/) noexcept override {}
  bool aborted() const noexcept override { return false; }
  std::optional<Failure> failure() const override { return failed; }
  RankProgress progress(int rank) const override { return ranks_progress[static_cast<std::size_t>(rank)]; }
  std::vector<int> stopped_ranks() const override { return stopped; }
  std::map<int, Loss> lost_ranks() const override { return lost; }
  std::vector<RankProgress> ranks_progress{4, RankProgress{.phase = Phase::timing, .steps = 7}};
  std::vector<int> stopped;
  std::map<int, Loss> lost;
  std::optional<Failure> failed;
};

constexpr double kStart = 1000;
constexpr double kLimit = 5;

}  // namespace

TEST_CASE("watchdog: no message while any rank makes progress") {
  SteppedJob stepped(3);
  Watchdog watchdog(stepped.job, kLimit, kStart);
  for (int second = 0; second < 100; second += 4) {
    stepped.step({second % 3});
    CHECK_FALSE(watchdog.check_progress(kStart + second));
    CHECK_FALSE(watchdog.check_progress(kStart + second + 3));
  }
}

TEST_CASE("watchdog: the limit starts with the first check") {
  SteppedJob stepped(2);
  Watchdog watchdog(stepped.job, kLimit, kStart);
  CHECK_FALSE(watchdog.check_progress(kStart));
  CHECK_FALSE(watchdog.check_progress(kStart + kLimit - 0.1));
  CHECK(watchdog.check_progress(kStart + kLimit));
}

TEST_CASE("watchdog: a delay gives another watchdog time, and the message keeps the limit") {
  SteppedJob stepped(2);
  Watchdog watchdog(stepped.job, kLimit, kStart);
  CHECK_FALSE(watchdog.check_progress(kStart, /*extra_s=*/8));
  CHECK_FALSE(watchdog.check_progress(kStart + kLimit + 7, /*extra_s=*/8));
  const auto stall = watchdog.check_progress(kStart + kLimit + 7);
  REQUIRE(stall);
  CHECK(stall->message.find("for 5 s") != std::string::npos);
}

TEST_CASE("watchdog: a step restarts the limit") {
  SteppedJob stepped(2);
  Watchdog watchdog(stepped.job, kLimit, kStart);
  CHECK_FALSE(watchdog.check_progress(kStart));
  stepped.step({1});
  CHECK_FALSE(watchdog.check_progress(kStart + 4));
  CHECK_FALSE(watchdog.check_progress(kStart + 8));
  CHECK(watchdog.check_progress(kStart + 9));
}

TEST_CASE("watchdog: names the ranks that are behind, and their phase") {
  SteppedJob stepped(4);
  Watchdog watchdog(stepped.job, kLimit, kStart);
  stepped.step({0, 1, 2, 3}, Phase::warmup);
  stepped.step({0, 1, 3}, Phase::timing);
  CHECK_FALSE(watchdog.check_progress(kStart));
  const auto stall = watchdog.check_progress(kStart + kLimit);
  REQUIRE(stall);
  check_names(stall->message, {"5 s", "rank 2 ", "warmup", "-T"});
  CHECK(stall->message.find("ranks") == std::string::npos);
  CHECK(stall->ranks == std::vector{2});
  watchdog.restart(kStart + kLimit);
  CHECK_FALSE(watchdog.check_progress(kStart + 2 * kLimit - 0.1));
  CHECK(watchdog.check_progress(kStart + 2 * kLimit));
}

TEST_CASE("watchdog: several ranks are listed, many are counted") {
  SteppedJob few(5);
  Watchdog few_watchdog(few.job, kLimit, kStart);
  few.step({1, 3});
  few_watchdog.check_progress(kStart);
  check_names(few_watchdog.check_progress(kStart + kLimit)->message, {"rank 0, rank 2, rank 4", "rendezvous"});

  SteppedJob many(40);
  Watchdog many_watchdog(many.job, kLimit, kStart);
  many.step({0});
  many_watchdog.check_progress(kStart);
  check_names(many_watchdog.check_progress(kStart + kLimit)->message,
              {"rank 1, rank 2, rank 3, rank 4, rank 5, rank 6, rank 7, rank 8 and 31 more did not get past"});
}

TEST_CASE("watchdog: ranks at the same step are not named") {
  SteppedJob stepped(3);
  Watchdog watchdog(stepped.job, 0.5, kStart);
  stepped.step({0, 1, 2}, Phase::check);
  watchdog.check_progress(kStart);
  const auto stall = watchdog.check_progress(kStart + 1);
  REQUIRE(stall);
  check_names(stall->message, {"0.5 s", "check", "same step", "-T"});
  for (const char* rank : {"rank 0", "rank 1", "rank 2", "ranks"})
    CHECK(stall->message.find(rank) == std::string::npos);
  CHECK(stall->ranks.empty());
}

TEST_CASE("watchdog: a stopped rank is named although all are at the same step") {
  FakeJob job;
  job.stopped = {2};
  Watchdog watchdog(job, kLimit, kStart);
  watchdog.check_progress(kStart);
  const auto stall = watchdog.check_progress(kStart + kLimit);
  REQUIRE(stall);
  CHECK(stall->ranks == job.stopped);
  CHECK(stall->message ==
        "no rank made progress for 5 s: rank 2 is stopped or silent in phase timing, the others wait; continue the "
        "process (kill -CONT), or check its host");
  job.stopped = {0, 1};
  check_names(watchdog.check_progress(kStart + kLimit)->message, {"rank 0, rank 1 are stopped"});
}

TEST_CASE("watchdog: a lost rank is not named, because no rank waits for it") {
  FakeJob job;
  job.lost = {{1, {"n1", "did not join"}}};
  job.ranks_progress[1] = {};
  job.ranks_progress[2].steps = 6;
  Watchdog watchdog(job, kLimit, kStart);
  watchdog.check_progress(kStart);
  check_names(watchdog.check_progress(kStart + kLimit)->message, {": rank 2 did not get past phase timing"});
  job.stopped = {1};
  check_names(watchdog.check_progress(kStart + kLimit)->message, {": rank 2 did not get past phase timing"});

  for (const int rank : {0, 2, 3}) job.ranks_progress[static_cast<std::size_t>(rank)].operations = 1;
  CHECK(last_operations_text(job, "flows") == "last issued: operation 1 (flows, 0 bytes) by rank 0, rank 2, rank 3");
  job.failed = Failure{ExitCode::rank_lost, "rank 1 was lost"};
  check_names(last_operations_text(job, "flows"), {"by rank 0, rank 2, rank 3; none by rank 1"});
}

TEST_CASE("last_operations_text: groups ranks by operation, the latest operation first") {
  SteppedJob stepped(4);
  CHECK(last_operations_text(stepped.job, "all_reduce").empty());
  for (const int rank : {0, 1, 3}) {
    stepped.teams[static_cast<std::size_t>(rank)]->issued().next(8);
    if (rank != 1) stepped.teams[static_cast<std::size_t>(rank)]->issued().next(1024);
  }
  CHECK(last_operations_text(stepped.job, "all_reduce") ==
        "last issued: operation 2 (all_reduce, 1024 bytes) by rank 0, rank 3; operation 1 (all_reduce, 8 bytes) by "
        "rank 1; "
        "none by rank 2");
}

TEST_CASE("last_operations_text: lists at most four operations") {
  SteppedJob stepped(20);
  for (int rank = 0; rank < 20; ++rank)
    for (int operation = 0; operation < rank; ++operation)
      stepped.teams[static_cast<std::size_t>(rank)]->issued().next(8);
  const std::string text = last_operations_text(stepped.job, "reduce");
  check_names(text, {"operation 19 (reduce, 8 bytes) by rank 19; ", "16 others by other ranks"});
  CHECK(text.size() < 400);
}
