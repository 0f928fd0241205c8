#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("broadcast: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_broadcast({}), kWholeFacts);
}

TEST_CASE("broadcast: only the root sends, and no operator is named") {
  const auto collective = make_broadcast({});
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->loops_over_redops());
  CHECK(collective->no_redop_name() == "none");
  CHECK(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(10, 4, 3);
  CHECK(collective->send_segments(shape, {4, 0, 3, 2}).empty());
  CHECK(collective->send_segments(shape, {4, 2, 3, 2}).size() == 1);
  CHECK(collective->expected_segments(shape, {4, 0, 3, 2}).at(0).source_rank == 2);
}
