#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("reduce_scatter: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_reduce_scatter({}), kScatteringFacts);
}

TEST_CASE("reduce_scatter: each rank holds its own share of the reduction") {
  const auto collective = make_reduce_scatter({});
  CHECK(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(64, 4, 3);
  const Segment segment = collective->expected_segments(shape, {4, 2, 3, -1}).at(0);
  CHECK(segment.source == Segment::Source::reduced);
  CHECK(segment.first == 2 * shape.recv_count);
}
