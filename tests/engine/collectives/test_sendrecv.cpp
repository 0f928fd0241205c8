#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("sendrecv: counts, in-place offsets and busbw as in nccl-tests") {
  check_facts(*make_sendrecv({}), kWholeFacts);
}

TEST_CASE("sendrecv: repeats over operators that it does not use; a result in place is not defined") {
  const auto collective = make_sendrecv({});
  CHECK_FALSE(collective->reduces());
  CHECK(collective->loops_over_redops());
  CHECK_FALSE(collective->has_root());
  CHECK_FALSE(collective->in_place_defined());
  CHECK(collective->operations_per_run() == 1);
  for (int ranks = 1; ranks < 5; ++ranks) CHECK(collective->rank_count_error(ranks) == "");
}

TEST_CASE("ping-pong: half round trips between pairs, for an even number of ranks") {
  const auto collective = make_sendrecv({.alltoallv = {}, .ping_pong = true});
  CHECK(collective->name() == "sendrecv");
  CHECK(collective->operations_per_run() == 2);
  CHECK(collective->rank_count_error(1) != "");
  CHECK(collective->rank_count_error(2) == "");
  CHECK(collective->rank_count_error(3) != "");
  CHECK(collective->rank_count_error(4) == "");
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
      const Segments expected = collective->expected_segments(shape, {4, rank, ranks, -1});
      check_covers(expected, shape.recv_count);
      const int peer = rank % 2 == 0 ? rank + 1 : rank - 1;
      CHECK(expected.at(0).source == Segment::Source::moved);
      CHECK(expected.at(0).source_rank == peer);
      CHECK(collective->send_segments(shape, {4, peer, ranks, -1}).at(0).first == expected.at(0).first);
    }
  }
}
