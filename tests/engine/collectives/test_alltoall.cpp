#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("alltoall: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, count of the call, in-place offsets; algbw bytes, busbw factor
  check_facts(*make_alltoall({}),
              {
                  {0, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {1, 4, 1, 0, 0, 0, 0, 0, 0, 0},
                  {1, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {3, 8, 2, 0, 0, 0, 0, 0, 0, 1.0 / 2},
                  {16, 1, 1, 16, 16, 16, 0, 0, 16, 0},
                  {17, 1, 1, 16, 16, 16, 0, 0, 16, 0},
                  {101, 1, 4, 64, 64, 16, 0, 0, 64, 3.0 / 4},
                  {101, 2, 3, 96, 96, 32, 0, 0, 192, 2.0 / 3},
                  {1000, 4, 7, 980, 980, 140, 0, 0, 3920, 6.0 / 7},
                  {1000, 8, 8, 992, 992, 124, 0, 0, 7936, 7.0 / 8},
                  {1024, 4, 8, 1024, 1024, 128, 0, 0, 4096, 7.0 / 8},
                  {1048576, 1, 32, 1048576, 1048576, 32768, 0, 0, 1048576, 31.0 / 32},
                  {1000003, 2, 3, 999984, 999984, 333328, 0, 0, 1999968, 2.0 / 3},
                  {268435456, 4, 8, 268435456, 268435456, 33554432, 0, 0, 1073741824, 7.0 / 8},
                  {8589934592, 8, 3, 8589934590, 8589934590, 2863311530, 0, 0, 68719476720, 2.0 / 3},
                  {8388608, 4, 2, 8388608, 8388608, 4194304, 0, 0, 33554432, 1.0 / 2},
              });
}

TEST_CASE("alltoall: a result in place is not defined, and no operator is named") {
  const auto collective = make_alltoall({});
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK_FALSE(collective->in_place_defined());
  CHECK(collective->no_redop_name() == "none");
}
