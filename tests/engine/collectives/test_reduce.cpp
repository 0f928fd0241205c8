#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("reduce: counts, in-place offsets and busbw as in nccl-tests") { check_facts(*make_reduce({}), kWholeFacts); }

TEST_CASE("reduce: the root holds the reduction, the others' receive buffers stay untouched") {
  const auto collective = make_reduce({});
  CHECK(collective->reduces());
  CHECK(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(10, 4, 3);
  CHECK(collective->expected_segments(shape, {4, 1, 3, 1}).at(0).source == Segment::Source::reduced);
  for (const int other : {0, 2})
    CHECK(collective->expected_segments(shape, {4, other, 3, 1}).at(0).source == Segment::Source::untouched);
}
