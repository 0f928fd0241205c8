#include "common/os/processors.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

using namespace busbw;

TEST_CASE("allowed_processors: the affinity mask of the thread") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const auto all = allowed_processors();
  CHECK(static_cast<int>(all.size()) == CPU_COUNT(&before));
  for (const int one : all) CHECK(CPU_ISSET(one, &before));
  // In a separate thread, so that the affinity of the test thread does not change.
  std::thread([&] {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(all.back(), &last);
    REQUIRE(sched_setaffinity(0, sizeof last, &last) == 0);
    CHECK(allowed_processors() == std::vector{all.back()});
  }).join();
}

TEST_CASE("oversubscription_warning: more ranks than processors, with a remedy") {
  CHECK_FALSE(oversubscription_warning(4, 4).has_value());
  CHECK_FALSE(oversubscription_warning(4, 0).has_value());  // unknown number of processors
  CHECK(
      oversubscription_warning(4, 2) ==
      "4 ranks share 2 processors, so times include waiting for a turn; use at most 2 ranks to time the communication "
      "alone");
  CHECK(oversubscription_warning(8, 1, "n1") ==
        "8 ranks on n1 share 1 processor, so times include waiting for a turn; use at most 1 rank there to time the "
        "communication alone");
}
