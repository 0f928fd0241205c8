// Time limits that are counted in ticks.
#include "common/os/ticker.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("TickLimit: passes after its time, and starts again") {
  TickLimit limit(0.2);
  CHECK(!limit.has_passed());
  for (int tick = 0; tick < 3; ++tick) sleep_tick();
  CHECK(limit.has_passed());
  CHECK(limit.has_passed());
  limit.restart();
  CHECK(!limit.has_passed());
}

TEST_CASE("TickLimit: a limit beyond all counts does not pass") {
  TickLimit limit(1e300);
  sleep_tick();
  CHECK(!limit.has_passed());
}
