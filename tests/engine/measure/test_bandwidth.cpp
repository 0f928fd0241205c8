#include "measure/bandwidth.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("bandwidth: algbw is bytes over seconds, busbw is algbw times the factor") {
  const Bandwidth reached = bandwidth({.algbw_bytes = 1e9, .bus_factor = 1.5}, 0.25);
  CHECK(reached.algbw_bytes_per_s == 4e9);
  CHECK(reached.busbw_bytes_per_s == 6e9);
}

TEST_CASE("bandwidth: no data gives zero, not missing") {
  CHECK(bandwidth({.algbw_bytes = 0, .bus_factor = 1.5}, 1e-6).busbw_bytes_per_s == 0);
  CHECK(bandwidth({.algbw_bytes = 8, .bus_factor = 0}, 1e-6).busbw_bytes_per_s == 0);
}
