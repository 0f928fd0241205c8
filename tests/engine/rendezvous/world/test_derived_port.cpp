#include "rendezvous/world/derived_port.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>

using namespace busbw;

TEST_CASE("derived_port: below the ephemeral ports, and different for consecutive numbers") {
  std::set<int> ports;
  for (std::uint64_t number = 5000; number < 13000; ++number) ports.insert(derived_port(number));
  CHECK(ports.size() == 8000);
  CHECK(*ports.begin() == 23000);
  CHECK(*ports.rbegin() == 30999);
  CHECK(derived_port(std::numeric_limits<std::uint64_t>::max()) >= 23000);
}
