#include "collectives/all.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("all_gather: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, the call's count, offsets in place; bytes of algbw, factor to busbw
  check_facts(*make_all_gather({}),
              {
                  {0, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {1, 4, 1, 0, 0, 0, 0, 0, 0, 0},
                  {1, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {3, 8, 2, 0, 0, 0, 0, 0, 0, 1.0 / 2},
                  {16, 1, 1, 16, 16, 16, 16, 0, 16, 0},
                  {17, 1, 1, 16, 16, 16, 16, 0, 16, 0},
                  {101, 1, 4, 16, 64, 16, 16, 0, 64, 3.0 / 4},
                  {101, 2, 3, 32, 96, 32, 32, 0, 192, 2.0 / 3},
                  {1000, 4, 7, 140, 980, 140, 140, 0, 3920, 6.0 / 7},
                  {1000, 8, 8, 124, 992, 124, 124, 0, 7936, 7.0 / 8},
                  {1024, 4, 8, 128, 1024, 128, 128, 0, 4096, 7.0 / 8},
                  {1048576, 1, 32, 32768, 1048576, 32768, 32768, 0, 1048576, 31.0 / 32},
                  {1000003, 2, 3, 333328, 999984, 333328, 333328, 0, 1999968, 2.0 / 3},
                  {268435456, 4, 8, 33554432, 268435456, 33554432, 33554432, 0, 1073741824, 7.0 / 8},
                  {8589934592, 8, 3, 2863311530, 8589934590, 2863311530, 2863311530, 0, 68719476720, 2.0 / 3},
                  {8388608, 4, 2, 4194304, 8388608, 4194304, 4194304, 0, 33554432, 1.0 / 2},
              });
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
