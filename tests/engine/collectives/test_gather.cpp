#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("gather: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_gather({}), kGatheringFacts);
}

TEST_CASE("gather: the root holds all shares, the others' receive buffers stay untouched") {
  const auto collective = make_gather({});
  CHECK_FALSE(collective->reduces());
  CHECK(collective->has_root());
  CHECK(collective->in_place_defined());
  CHECK(collective->no_redop_name() == "none");
  const Shape shape = collective->shape(64, 4, 3);
  CHECK(collective->expected_segments(shape, {4, 1, 3, 1}).size() == 3);
  CHECK(collective->expected_segments(shape, {4, 0, 3, 1}).at(0).source == Segment::Source::untouched);
}
