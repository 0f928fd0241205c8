#include "measure/sampling/gate_capacity.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace busbw {
namespace {

/// A batch in which an operation is one call and an iteration is one operation.
BatchCalls single(std::size_t iterations) { return {1, 1, iterations}; }

}  // namespace

TEST_CASE("gate capacity: issued operations never exceed it, and one more iteration would") {
  for (std::size_t room = 1; room <= 60; ++room)
    for (const std::size_t per_run : {1, 2, 7})
      for (const std::size_t aggregated : {1, 3}) {
        CAPTURE(room);
        CAPTURE(per_run);
        CAPTURE(aggregated);
        const std::size_t per_iteration = per_run * aggregated;
        const GateCapacity behind(room, {per_run, per_iteration, 1000});
        const std::size_t plain = behind.iterations();
        if (plain > 0) CHECK(per_run + 2 + plain * per_iteration <= room);
        CHECK(per_run + 2 + (plain + 1) * per_iteration > room);
        const std::size_t stamped = behind.timestamped_iterations();
        if (stamped > 0) CHECK(per_run + stamped * (per_iteration + 1) + 1 <= room);
        CHECK(per_run + (stamped + 1) * (per_iteration + 1) + 1 > room);
      }
}

TEST_CASE("gate capacity: limited by the iterations of the batch") {
  CHECK(GateCapacity(40, single(5)).iterations() == 5);
  CHECK(GateCapacity(40, single(1000)).iterations() == 37);
}

TEST_CASE("gate capacity: 25 operations and timestamps of a graph count as one") {
  CHECK(GateCapacity(40, single(1000)).fits_graph());
  CHECK_FALSE(GateCapacity(40, single(1001)).fits_graph());
  CHECK(GateCapacity(40, single(499)).fits_timestamped_graph());  // and 500 timestamps
  CHECK_FALSE(GateCapacity(40, single(500)).fits_timestamped_graph());
}

TEST_CASE("gate capacity: a graph's launch shares it with an operation and timestamps") {
  CHECK_FALSE(GateCapacity(3, single(1)).fits_graph());
  CHECK(GateCapacity(4, single(1)).fits_graph());
  CHECK_FALSE(GateCapacity(1, single(1)).fits_timestamped_graph());
  CHECK(GateCapacity(2, single(1)).fits_timestamped_graph());
}

}  // namespace busbw
