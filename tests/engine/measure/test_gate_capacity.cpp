#include "measure/gate_capacity.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace busbw {
namespace {

/// An operation is one call, and an iteration one operation.
BatchCalls single(std::size_t iterations) { return {1, 1, iterations}; }

}  // namespace

TEST_CASE("gate room: what is issued never exceeds it, and one iteration more would") {
  for (std::size_t room = 1; room <= 60; ++room)
    for (const std::size_t per_operation : {1, 2, 7})
      for (const std::size_t aggregated : {1, 3}) {
        CAPTURE(room);
        CAPTURE(per_operation);
        CAPTURE(aggregated);
        const std::size_t per_iteration = per_operation * aggregated;
        const GateCapacity behind(room, {per_operation, per_iteration, 1000});
        const std::size_t plain = behind.iterations();
        if (plain > 0) CHECK(per_operation + 2 + plain * per_iteration <= room);
        CHECK(per_operation + 2 + (plain + 1) * per_iteration > room);
        const std::size_t stamped = behind.timestamped_iterations();
        if (stamped > 0) CHECK(per_operation + stamped * (per_iteration + 1) + 1 <= room);
        CHECK(per_operation + (stamped + 1) * (per_iteration + 1) + 1 > room);
      }
}

TEST_CASE("gate room: no more iterations than the batch has") {
  CHECK(GateCapacity(40, single(5)).iterations() == 5);
  CHECK(GateCapacity(40, single(1000)).iterations() == 37);
}

TEST_CASE("gate room: a graph counts 25 of its operations and stamps for one") {
  CHECK(GateCapacity(40, single(1000)).fits_graph());
  CHECK_FALSE(GateCapacity(40, single(1001)).fits_graph());
  CHECK(GateCapacity(40, single(499)).fits_timestamped_graph());  // and 500 stamps
  CHECK_FALSE(GateCapacity(40, single(500)).fits_timestamped_graph());
}

TEST_CASE("gate room: a graph is launched beside an operation and its stamps, too") {
  CHECK_FALSE(GateCapacity(3, single(1)).fits_graph());
  CHECK(GateCapacity(4, single(1)).fits_graph());
  CHECK_FALSE(GateCapacity(1, single(1)).fits_timestamped_graph());
  CHECK(GateCapacity(2, single(1)).fits_timestamped_graph());
}

}  // namespace busbw
