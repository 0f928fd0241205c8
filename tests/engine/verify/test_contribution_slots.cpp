#include "verify/contribution_slots.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("each slot has one rank and each rank one slot") {
  for (const int ranks : {1, 2, 3, 7, 64}) {
    const ContributionSlots slots(ranks, 8);
    CHECK(slots.drawn_count() == (ranks < 8 ? ranks : 8));
    for (const std::size_t position : {0u, 1u, 5u, 63u, 64u, 16383u}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int slot = slots.slot_of(rank, position);
        CHECK(slot >= 0);
        CHECK(slot < ranks);
        CHECK(slots.rank_of(slot, position) == rank);
      }
    }
  }
}

TEST_CASE("every rank holds a drawn value somewhere in a tile") {
  for (const int ranks : {2, 100, 16384, 16385, 40000, 65535, 65536}) {
    CAPTURE(ranks);
    const ContributionSlots slots(ranks, 4);
    std::vector<bool> holds(static_cast<std::size_t>(ranks));
    for (std::size_t position = 0; position < kTileElements; ++position) {
      for (int slot = 0; slot < slots.drawn_count(); ++slot) {
        holds[static_cast<std::size_t>(slots.rank_of(slot, position))] = true;
      }
    }
    CHECK(std::count(holds.begin(), holds.end(), false) == 0);
  }
}
