#include "backends/host/team_gather.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support_ranks.hpp"

using namespace busbw;

TEST_CASE("all_gather_bytes: every member gets all bytes in rank order, empty ones too") {
  for (const int ranks : {1, 2, 5}) {
    const std::string complaints = run_threads(ranks, [&](Team& world) -> std::string {
      const auto bytes_of = [](int rank) { return Bytes(static_cast<std::size_t>(rank * 1000), std::byte(rank)); };
      const auto parts = all_gather_bytes(world, bytes_of(world.rank()));
      if (parts.size() != static_cast<std::size_t>(ranks)) return "how many; ";
      for (int rank = 0; rank < ranks; ++rank) {
        if (parts[static_cast<std::size_t>(rank)] != bytes_of(rank)) return "rank " + std::to_string(rank) + "; ";
      }
      return {};
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("world_ranks_of: the job ranks of a group's members") {
  const std::string complaints = run_threads(5, [&](Team& world) -> std::string {
    const auto group = world.split(world.rank() % 2);
    const auto members = world_ranks_of(world, *group);
    const auto right = world.rank() % 2 == 0 ? std::vector{0, 2, 4} : std::vector{1, 3};
    return members == right ? "" : "rank " + std::to_string(world.rank()) + "; ";
  });
  CHECK(complaints == "");
}
