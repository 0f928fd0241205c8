#include "collectives/all.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("sendrecv: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, the call's count, offsets in place; bytes of algbw, factor to busbw
  check_facts(*make_sendrecv({}), {
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

TEST_CASE("sendrecv: repeats over operators that it does not use; a result in place is not defined") {
  const auto collective = make_sendrecv({});
  CHECK_FALSE(collective->reduces());
  CHECK(collective->loops_over_redops());
  CHECK_FALSE(collective->has_root());
  CHECK_FALSE(collective->in_place_defined());
  CHECK(collective->operations_per_run() == 1);
  for (int ranks = 1; ranks < 5; ++ranks) CHECK(collective->refuses(ranks) == "");
}

TEST_CASE("ping-pong: half round trips between pairs, for an even number of ranks") {
  const auto collective = make_sendrecv({.alltoallv = {}, .ping_pong = true});
  CHECK(collective->name() == "sendrecv");
  CHECK(collective->operations_per_run() == 2);
  CHECK(collective->refuses(1) != "");
  CHECK(collective->refuses(2) == "");
  CHECK(collective->refuses(3) != "");
  CHECK(collective->refuses(4) == "");
  const Shape shape = collective->shape(10, 4, 2);
  CHECK(shape.send_count == 10);
  CHECK(collective->traffic(shape, 4, 2).algbw_bytes == 40);
  CHECK(collective->traffic(shape, 4, 2).bus_factor == 1);
}

TEST_CASE("ping-pong: each rank of a pair gets the other's data") {
  const auto collective = make_sendrecv({.alltoallv = {}, .ping_pong = true});
  for (const int ranks : {2, 4, 8}) {
    const Shape shape = collective->shape(10, 4, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(ranks);
      CAPTURE(rank);
      const Pieces expected = collective->expected(shape, 4, rank, ranks, -1);
      check_covers(expected, shape.recv_count);
      const int peer = rank % 2 == 0 ? rank + 1 : rank - 1;
      CHECK(expected.at(0).source == Piece::Source::moved);
      CHECK(expected.at(0).source_rank == peer);
      CHECK(collective->to_send(shape, 4, peer, ranks, -1).at(0).first == expected.at(0).first);
    }
  }
}
