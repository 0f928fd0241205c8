#include "watch/watchdog.hpp"

#include <doctest/doctest.h>

#include "rendezvous/team/local_job.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// A job whose ranks step when told to; time is made up.
struct Scene {
  explicit Scene(int ranks) : job(ranks) {
    for (int rank = 0; rank < ranks; ++rank) teams.push_back(job.team(rank));
  }
  void step(std::initializer_list<int> ranks, Phase phase = Phase::timing) {
    for (const int rank : ranks) teams[static_cast<std::size_t>(rank)]->enter(phase);
  }
  LocalJob job;
  std::vector<std::unique_ptr<Team>> teams;
};

constexpr double kStart = 1000;
constexpr double kLimit = 5;

}  // namespace

TEST_CASE("watchdog: keeps quiet as long as any rank gets on") {
  Scene scene(3);
  Watchdog watchdog(scene.job, kLimit, kStart);
  for (int second = 0; second < 100; second += 4) {
    scene.step({second % 3});
    CHECK_FALSE(watchdog.check_progress(kStart + second));
    CHECK_FALSE(watchdog.check_progress(kStart + second + 3));
  }
}

TEST_CASE("watchdog: the limit runs from the first wait on") {
  Scene scene(2);
  Watchdog watchdog(scene.job, kLimit, kStart);
  CHECK_FALSE(watchdog.check_progress(kStart));
  CHECK_FALSE(watchdog.check_progress(kStart + kLimit - 0.1));
  CHECK(watchdog.check_progress(kStart + kLimit));
}

TEST_CASE("watchdog: a step begins the limit anew") {
  Scene scene(2);
  Watchdog watchdog(scene.job, kLimit, kStart);
  CHECK_FALSE(watchdog.check_progress(kStart));
  scene.step({1});
  CHECK_FALSE(watchdog.check_progress(kStart + 4));
  CHECK_FALSE(watchdog.check_progress(kStart + 8));
  CHECK(watchdog.check_progress(kStart + 9));
}

TEST_CASE("watchdog: names the ranks that are behind, and their phase") {
  Scene scene(4);
  Watchdog watchdog(scene.job, kLimit, kStart);
  scene.step({0, 1, 2, 3}, Phase::warmup);
  scene.step({0, 1, 3}, Phase::timing);
  CHECK_FALSE(watchdog.check_progress(kStart));
  const auto sentence = watchdog.check_progress(kStart + kLimit);
  REQUIRE(sentence);
  check_names(*sentence, {"5 s", "rank 2 ", "warmup", "-T"});
  CHECK(sentence->find("ranks") == std::string::npos);
}

TEST_CASE("watchdog: several ranks are listed, many are counted") {
  Scene few(5);
  Watchdog of_few(few.job, kLimit, kStart);
  few.step({1, 3});
  of_few.check_progress(kStart);
  check_names(*of_few.check_progress(kStart + kLimit), {"rank 0, rank 2, rank 4", "rendezvous"});

  Scene many(40);
  Watchdog of_many(many.job, kLimit, kStart);
  many.step({0});
  of_many.check_progress(kStart);
  check_names(*of_many.check_progress(kStart + kLimit),
              {"rank 1, rank 2, rank 3, rank 4, rank 5, rank 6, rank 7, rank 8 and 31 more did not get past"});
}

TEST_CASE("watchdog: ranks at the same step are not accused") {
  Scene scene(3);
  Watchdog watchdog(scene.job, 0.5, kStart);
  scene.step({0, 1, 2}, Phase::check);
  watchdog.check_progress(kStart);
  const auto sentence = watchdog.check_progress(kStart + 1);
  REQUIRE(sentence);
  check_names(*sentence, {"0.5 s", "check", "same step", "-T"});
  for (const char* rank : {"rank 0", "rank 1", "rank 2", "ranks"}) CHECK(sentence->find(rank) == std::string::npos);
}

TEST_CASE("last_operations: ranks that issued the same one are named together, the furthest first") {
  Scene scene(4);
  CHECK(last_operations(scene.job, "all_reduce").empty());
  for (const int rank : {0, 1, 3}) {
    scene.teams[static_cast<std::size_t>(rank)]->issued().next(8);
    if (rank != 1) scene.teams[static_cast<std::size_t>(rank)]->issued().next(1024);
  }
  CHECK(last_operations(scene.job, "all_reduce") ==
        "last issued: operation 2 (all_reduce, 1024 bytes) by rank 0, rank 3; operation 1 (all_reduce, 8 bytes) by "
        "rank 1; "
        "none by rank 2");
}

TEST_CASE("last_operations: many ranks that are all apart are not all told") {
  Scene scene(20);
  for (int rank = 0; rank < 20; ++rank)
    for (int operation = 0; operation < rank; ++operation)
      scene.teams[static_cast<std::size_t>(rank)]->issued().next(8);
  const std::string text = last_operations(scene.job, "reduce");
  check_names(text, {"operation 19 (reduce, 8 bytes) by rank 19; ", "16 others by other ranks"});
  CHECK(text.size() < 400);
}
