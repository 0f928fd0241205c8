#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("all_reduce: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, count of the call, in-place offsets; algbw bytes, busbw factor
  check_facts(*make_all_reduce({}),
              {
                  {0, 4, 4, 0, 0, 0, 0, 0, 0, 6.0 / 4},
                  {1, 4, 1, 1, 1, 1, 0, 0, 4, 0},
                  {1, 4, 4, 1, 1, 1, 0, 0, 4, 6.0 / 4},
                  {3, 8, 2, 3, 3, 3, 0, 0, 24, 2.0 / 2},
                  {16, 1, 1, 16, 16, 16, 0, 0, 16, 0},
                  {17, 1, 1, 17, 17, 17, 0, 0, 17, 0},
                  {101, 1, 4, 101, 101, 101, 0, 0, 101, 6.0 / 4},
                  {101, 2, 3, 101, 101, 101, 0, 0, 202, 4.0 / 3},
                  {1000, 4, 7, 1000, 1000, 1000, 0, 0, 4000, 12.0 / 7},
                  {1000, 8, 8, 1000, 1000, 1000, 0, 0, 8000, 14.0 / 8},
                  {1024, 4, 8, 1024, 1024, 1024, 0, 0, 4096, 14.0 / 8},
                  {1048576, 1, 32, 1048576, 1048576, 1048576, 0, 0, 1048576, 62.0 / 32},
                  {1000003, 2, 3, 1000003, 1000003, 1000003, 0, 0, 2000006, 4.0 / 3},
                  {268435456, 4, 8, 268435456, 268435456, 268435456, 0, 0, 1073741824, 14.0 / 8},
                  {8589934592, 8, 3, 8589934592, 8589934592, 8589934592, 0, 0, 68719476736, 4.0 / 3},
                  {8388608, 4, 2, 8388608, 8388608, 8388608, 0, 0, 33554432, 2.0 / 2},
              });
}

TEST_CASE(
    "all_reduce: names its operator, has no root, is defined in place, and every rank holds the whole reduction") {
  const auto collective = make_all_reduce({});
  CHECK(collective->reduces());
  CHECK(collective->loops_over_redops());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(10, 4, 3);
  for (int rank = 0; rank < 3; ++rank) {
    const Segments expected = collective->expected_segments(shape, {4, rank, 3, -1});
    REQUIRE(expected.size() == 1);
    CHECK(expected[0].source == Segment::Source::reduced);
    CHECK(expected[0].count == 10);
    CHECK(expected[0].first == 0);
  }
}
