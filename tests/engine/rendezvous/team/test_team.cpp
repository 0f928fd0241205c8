#include "rendezvous/team/team.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support_ranks.hpp"
#include "values/memory_use.hpp"

using namespace busbw;

TEST_CASE("gather_values: rank 0 gets every rank's value; missing figures stay missing") {
  const std::string complaints = run_threads(3, [](Team& world) -> std::string {
    const auto use_of = [](int rank) { return MemoryUse{{}, {}, -rank, rank == 1 ? std::optional(7) : std::nullopt}; };
    const auto uses = gather_values(world, use_of(world.rank()));
    if (world.rank() > 0) return uses.empty() ? "" : "only rank 0 gets values";
    if (uses.size() != 3) return "not all ranks";
    for (int rank = 0; rank < 3; ++rank) {
      const MemoryUse& use = uses[static_cast<std::size_t>(rank)];
      if (use.buffer_bytes != -rank || use.collective_bytes != use_of(rank).collective_bytes) return "wrong value";
      if (use.context_bytes || use.library_bytes) return "made up";
    }
    return "";
  });
  CHECK(complaints == "");
}

TEST_CASE("broadcast_value: rank 0's value reaches all ranks") {
  const std::string complaints = run_threads(
      3, [](Team& world) -> std::string { return broadcast_value(world, world.rank() + 10) == 10 ? "" : "other"; });
  CHECK(complaints == "");
}

TEST_CASE("all_gather_values: every member gets all values in rank order, empty ones too") {
  for (const int ranks : {1, 2, 5}) {
    const std::string complaints = run_threads(ranks, [&](Team& world) -> std::string {
      const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank * 1000), 'x'); };
      const auto texts = all_gather_values(world, text_of(world.rank()));
      if (texts.size() != static_cast<std::size_t>(ranks)) return "count; ";
      for (int rank = 0; rank < ranks; ++rank) {
        if (texts[static_cast<std::size_t>(rank)] != text_of(rank)) return "rank " + std::to_string(rank) + "; ";
      }
      return {};
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("all_gather_values: in a group, of the group's members") {
  const std::string complaints = run_threads(5, [&](Team& world) -> std::string {
    const auto group = world.split(world.rank() % 2);
    const auto members = all_gather_values(*group, world.rank());
    const auto right = world.rank() % 2 == 0 ? std::vector{0, 2, 4} : std::vector{1, 3};
    return members == right ? "" : "rank " + std::to_string(world.rank()) + "; ";
  });
  CHECK(complaints == "");
}
