#include "measure/host_timestamps.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace busbw;

TEST_CASE("HostTimestamps: the signed time between two timestamps") {
  HostTimestamps stamps;
  stamps.reset(3);
  stamps.set(0);
  usleep(2000);
  stamps.set(1);
  stamps.set(2);
  CHECK(stamps.seconds_between(0, 1) >= 0.002);
  CHECK(stamps.seconds_between(0, 2) >= stamps.seconds_between(0, 1));
  CHECK(stamps.seconds_between(1, 0) == -stamps.seconds_between(0, 1));
}
