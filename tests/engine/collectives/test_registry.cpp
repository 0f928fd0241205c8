// Tests of all collectives in the registry. New entries are tested automatically.
#include "collectives/registry.hpp"
#include "measure/sampling/gate_capacity.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <set>

#include "support_collective.hpp"
#include "support_device.hpp"

using namespace busbw;

namespace {

/// Calls `check` for all collectives, with default settings, by size and number of ranks. Skips rejected numbers of
/// ranks.
void for_every_case(
    const std::function<void(const Collective&, std::size_t count, std::size_t element_bytes, int ranks)>& check) {
  for (const CollectiveEntry& entry : all_collectives()) {
    const auto collective = entry.make({});
    CAPTURE(entry.name);
    for (const int ranks : kRankCounts) {
      CAPTURE(ranks);
      if (!collective->rank_count_error(ranks).empty()) continue;
      for (const std::size_t element_bytes : kElementSizes)
        for (const std::size_t count : kElementCounts) {
          CAPTURE(element_bytes);
          CAPTURE(count);
          check(*collective, count, element_bytes, ranks);
        }
    }
  }
}

}  // namespace

TEST_CASE("all_collectives: nccl-tests' eleven programs, each under its own name, once") {
  const std::set<std::string_view> programs{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                            "reduce",     "alltoall",   "alltoallv",      "gather",
                                            "scatter",    "sendrecv",   "hypercube"};
  std::set<std::string_view> names;
  for (const CollectiveEntry& entry : all_collectives()) {
    CHECK(names.insert(entry.name).second);
    CHECK(entry.make({})->name() == entry.name);
    const auto found = make_collective(entry.name, {});
    REQUIRE(found);
    CHECK(found->name() == entry.name);
  }
  for (const std::string_view program : programs) CHECK(names.contains(program));
}

TEST_CASE("make_collective: null for an unknown name") {
  for (const char* name : {"", "all_reduce_perf", "ALL_REDUCE", "all reduce", "bcast"})
    CHECK_FALSE(make_collective(name, {}));
}

TEST_CASE("every collective: a rank's data and its in-place regions fit into the requested size") {
  for_every_case([](const Collective& collective, std::size_t count, std::size_t element_bytes, int ranks) {
    const Shape shape = collective.shape(count, element_bytes, ranks);
    const std::size_t larger = std::max(shape.send_count, shape.recv_count);
    REQUIRE(larger <= count);
    const auto last = static_cast<std::size_t>(ranks - 1);
    REQUIRE(shape.send_inplace_offset * last + shape.send_count <= larger);
    REQUIRE(shape.recv_inplace_offset * last + shape.recv_count <= larger);
  });
}

TEST_CASE("every collective: traffic is finite and nonnegative, and grows with the size") {
  for_every_case([](const Collective& collective, std::size_t count, std::size_t element_bytes, int ranks) {
    const auto bus_bytes = [&](std::size_t elements) {
      const Traffic traffic =
          collective.traffic(collective.shape(elements, element_bytes, ranks), element_bytes, ranks);
      return traffic.algbw_bytes * traffic.bus_factor;
    };
    REQUIRE(std::isfinite(bus_bytes(count)));
    REQUIRE(bus_bytes(count) >= 0);
    REQUIRE(bus_bytes(2 * count) >= bus_bytes(count));
    if (ranks > 1) REQUIRE(bus_bytes(64 * 32) > 0);
  });
}

TEST_CASE("every collective: the expected segments cover the result without gaps or overlaps") {
  for_every_case([](const Collective& collective, std::size_t count, std::size_t element_bytes, int ranks) {
    const Shape shape = collective.shape(count, element_bytes, ranks);
    for (const int root : roots_to_try(collective, ranks))
      for (int rank = 0; rank < ranks; ++rank)
        check_covers(collective.expected_segments(shape, {element_bytes, rank, ranks, root}), shape.recv_count);
  });
}

TEST_CASE("every collective: the expected segments equal a simulation over all ranks") {
  for_every_case([](const Collective& collective, std::size_t count, std::size_t element_bytes, int ranks) {
    if (collective.name() == "alltoallv" || count > 1100) return;  // has its own simulation; slow
    REQUIRE_MESSAGE(can_simulate(collective.name()), "write a simulation of it in support_collective.hpp");
    const Shape shape = collective.shape(count, element_bytes, ranks);
    for (const int root : roots_to_try(collective, ranks)) {
      const Simulation job{ranks, root, shape.recv_count, shape.param_count,
                           all_sends(collective, shape, element_bytes, ranks, root)};
      for (int rank = 0; rank < ranks; ++rank) {
        const auto expected =
            labels_of(collective.expected_segments(shape, {element_bytes, rank, ranks, root}), shape.recv_count);
        const Labels simulated = simulate(collective.name(), job, rank);
        const auto differ = std::ranges::mismatch(expected, simulated);
        if (differ.in1 == expected.end()) continue;
        CAPTURE(rank);
        CAPTURE(root);
        CAPTURE(differ.in1 - expected.begin());
        REQUIRE(*differ.in1 == *differ.in2);
      }
    }
  });
}

TEST_CASE("segments_from_every_rank: equal shares in rank order") {
  const Segments segments = segments_from_every_rank(5, 3);
  REQUIRE(segments.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const Segment& segment = segments[static_cast<std::size_t>(rank)];
    CHECK(segment.offset == 5u * static_cast<unsigned>(rank));
    CHECK(segment.count == 5);
    CHECK(segment.source_rank == rank);
    CHECK(segment.first == 0);
    CHECK(segment.source == Segment::Source::moved);
  }
}

TEST_CASE("weighted_calls_per_run: no run makes more calls, because a gate's capacity is based on it") {
  std::vector<std::byte> data(4096);
  const auto check = [&](const Collective& collective, int ranks) {
    CAPTURE(collective.name());
    CAPTURE(ranks);
    DeviceCommunicator device({}, 0, ranks);
    collective.run(device, {.send = data.data() + 2048, .recv = data.data(), .count = 4});
    CHECK(device.count("run") + device.count("copy") <= collective.weighted_calls_per_run(ranks));
  };
  for (const CollectiveEntry& entry : all_collectives())
    for (const int ranks : {2, 4, 8}) check(*entry.make({}), ranks);
  check(*make_collective("sendrecv", {.alltoallv = {}, .ping_pong = true}), 2);
}

TEST_CASE("weighted_calls_per_run: gated calls over a network fill at most 9/16 of NCCL's work queue") {
  constexpr std::size_t kQueueBytes = std::size_t{1} << 20;
  constexpr std::size_t kBytesPerRank = 48;
  constexpr std::size_t kCapacityOverNetwork = 8;
  for (const char* name : {"alltoall", "alltoallv", "gather", "scatter"})
    for (int ranks = 2; ranks <= 16384; ++ranks) {
      const auto calls = static_cast<std::size_t>(make_collective(name, {})->weighted_calls_per_run(ranks));
      const GateCapacity capacity(kCapacityOverNetwork, {.per_run = calls, .per_iteration = calls, .iterations = 100});
      const std::size_t gated_calls = capacity.iterations() == 0 ? 0 : 1 + capacity.iterations();
      REQUIRE(gated_calls * kBytesPerRank * static_cast<std::size_t>(ranks) <= kQueueBytes * 9 / 16);
      if (ranks < 2048) REQUIRE(gated_calls == 6);
    }
}
