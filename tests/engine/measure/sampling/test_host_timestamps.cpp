#include "measure/sampling/host_timestamps.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace busbw;

TEST_CASE("HostTimestamps: the signed time between two timestamps") {
  HostTimestamps timestamps;
  timestamps.reset(3);
  timestamps.set(0);
  usleep(2000);
  timestamps.set(1);
  timestamps.set(2);
  CHECK(timestamps.seconds_between(0, 1) >= 0.002);
  CHECK(timestamps.seconds_between(0, 2) >= timestamps.seconds_between(0, 1));
  CHECK(timestamps.seconds_between(1, 0) == -timestamps.seconds_between(0, 1));
}

TEST_CASE("HostTimestamps: the latest timestamp is taken once") {
  HostTimestamps timestamps;
  timestamps.reset(1);
  CHECK_FALSE(timestamps.take_latest_s());
  const double before_s = monotonic_s();
  timestamps.set(0);
  const auto latest_s = timestamps.take_latest_s();
  REQUIRE(latest_s);
  CHECK(*latest_s >= before_s);
  CHECK(*latest_s <= monotonic_s());
  CHECK_FALSE(timestamps.take_latest_s());
}
