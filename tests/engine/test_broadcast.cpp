#include "collectives/all.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("broadcast: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, the call's count, offsets in place; bytes of algbw, factor to busbw
  check_facts(*make_broadcast({}), {
                                       {0, 4, 4, 0, 0, 0, 0, 0, 0, 1},
                                       {1, 4, 1, 1, 1, 1, 0, 0, 4, 1},
                                       {1, 4, 4, 1, 1, 1, 0, 0, 4, 1},
                                       {3, 8, 2, 3, 3, 3, 0, 0, 24, 1},
                                       {16, 1, 1, 16, 16, 16, 0, 0, 16, 1},
                                       {17, 1, 1, 17, 17, 17, 0, 0, 17, 1},
                                       {101, 1, 4, 101, 101, 101, 0, 0, 101, 1},
                                       {101, 2, 3, 101, 101, 101, 0, 0, 202, 1},
                                       {1000, 4, 7, 1000, 1000, 1000, 0, 0, 4000, 1},
                                       {1000, 8, 8, 1000, 1000, 1000, 0, 0, 8000, 1},
                                       {1024, 4, 8, 1024, 1024, 1024, 0, 0, 4096, 1},
                                       {1048576, 1, 32, 1048576, 1048576, 1048576, 0, 0, 1048576, 1},
                                       {1000003, 2, 3, 1000003, 1000003, 1000003, 0, 0, 2000006, 1},
                                       {268435456, 4, 8, 268435456, 268435456, 268435456, 0, 0, 1073741824, 1},
                                       {8589934592, 8, 3, 8589934592, 8589934592, 8589934592, 0, 0, 68719476736, 1},
                                       {8388608, 4, 2, 8388608, 8388608, 8388608, 0, 0, 33554432, 1},
                                   });
}

TEST_CASE("broadcast: only the root sends, and no operator is named") {
  const auto collective = make_broadcast({});
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->loops_over_redops());
  CHECK(collective->no_redop_name() == "none");
  CHECK(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(10, 4, 3);
  CHECK(collective->to_send(shape, 4, 0, 3, 2).empty());
  CHECK(collective->to_send(shape, 4, 2, 3, 2).size() == 1);
  CHECK(collective->expected(shape, 4, 0, 3, 2).at(0).source_rank == 2);
}
