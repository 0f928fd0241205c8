#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("scatter: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_scatter({}), kScatteringFacts);
}

TEST_CASE("scatter: only the root sends, and each rank gets its own share of that") {
  const auto collective = make_scatter({});
  CHECK_FALSE(collective->reduces());
  CHECK(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(64, 4, 3);
  CHECK(collective->send_segments(shape, {4, 0, 3, 1}).empty());
  const Segment segment = collective->expected_segments(shape, {4, 2, 3, 1}).at(0);
  CHECK(segment.source_rank == 1);
  CHECK(segment.first == 2 * shape.recv_count);
}
