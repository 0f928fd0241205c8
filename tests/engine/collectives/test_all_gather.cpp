#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("all_gather: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_all_gather({}), kGatheringFacts);
}

TEST_CASE("all_gather: no operator, no root, defined in place") {
  const auto collective = make_all_gather({});
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->in_place_defined());
  CHECK(collective->no_redop_name() == "none");
}

TEST_CASE("all_gather: a size too small for 16 bytes per rank becomes zero, as in nccl-tests") {
  const auto collective = make_all_gather({});
  CHECK(collective->shape(15, 1, 1).recv_count == 0);
  CHECK(collective->shape(16, 1, 1).recv_count == 16);
  CHECK(collective->shape(31, 4, 8).recv_count == 0);
  CHECK(collective->shape(32, 4, 8).recv_count == 32);
}
