#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("hypercube: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, count of the call, in-place offsets; algbw bytes, busbw factor
  check_facts(*make_hypercube({}), {
                                       {0, 4, 4, 0, 0, 0, 0, 0, 0, 1},
                                       {1, 4, 1, 0, 0, 0, 0, 0, 0, 1},
                                       {1, 4, 4, 0, 0, 0, 0, 0, 0, 1},
                                       {3, 8, 2, 0, 0, 0, 0, 0, 0, 1},
                                       {16, 1, 1, 16, 16, 16, 16, 0, 0, 1},
                                       {17, 1, 1, 16, 16, 16, 16, 0, 0, 1},
                                       {101, 1, 4, 16, 64, 16, 16, 0, 48, 1},
                                       {1000, 8, 8, 124, 992, 124, 124, 0, 6944, 1},
                                       {1024, 4, 8, 128, 1024, 128, 128, 0, 3584, 1},
                                       {1048576, 1, 32, 32768, 1048576, 32768, 32768, 0, 1015808, 1},
                                       {268435456, 4, 8, 33554432, 268435456, 33554432, 33554432, 0, 939524096, 1},
                                       {8388608, 4, 2, 4194304, 8388608, 4194304, 4194304, 0, 16777216, 1},
                                   });
}

TEST_CASE("hypercube: a number of ranks that is not a power of two is an error that names it") {
  const auto collective = make_hypercube({});
  for (const int ranks : {1, 2, 4, 8, 16, 1024}) CHECK(collective->rank_count_error(ranks) == "");
  for (const int ranks : {3, 5, 6, 7, 12, 1023})
    CHECK(collective->rank_count_error(ranks).find(std::to_string(ranks)) != std::string::npos);
}

TEST_CASE("hypercube: a blank operator, no root, defined in place") {
  const auto collective = make_hypercube({});
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->in_place_defined());
  CHECK(collective->no_redop_name() == "");
}
