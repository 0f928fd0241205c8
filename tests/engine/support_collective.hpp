#pragma once
// Independent facts about collectives: figures of nccl-tests 2.19.6, and a simulation that moves labeled elements
// between ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"

namespace busbw {

inline constexpr std::initializer_list<int> kRankCounts{1, 2, 3, 4, 7, 8, 32};
inline constexpr std::initializer_list<std::size_t> kElementSizes{1, 2, 4, 8};
inline constexpr std::initializer_list<std::size_t> kElementCounts{0, 1, 15, 16, 17, 101, 1000, 1024, 4099};

/// Counts and in-place offsets for one size, and the resulting bandwidth figures.
struct ShapeFact {
  std::size_t count, element_bytes;
  int ranks;
  std::size_t send, recv, param, send_offset, recv_offset;
  double algbw_bytes, bus_factor;
};

// In the order of its members: count, element bytes, ranks; sent, received, the call's count, offsets in place; bytes
// of algbw, factor to busbw.
/// Collectives that gather one share of each rank.
inline constexpr std::initializer_list<ShapeFact> kGatheringFacts{
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
};
/// Collectives that give one share to each rank.
inline constexpr std::initializer_list<ShapeFact> kScatteringFacts{
    {0, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
    {1, 4, 1, 0, 0, 0, 0, 0, 0, 0},
    {1, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
    {3, 8, 2, 0, 0, 0, 0, 0, 0, 1.0 / 2},
    {16, 1, 1, 16, 16, 16, 0, 16, 16, 0},
    {17, 1, 1, 16, 16, 16, 0, 16, 16, 0},
    {101, 1, 4, 64, 16, 16, 0, 16, 64, 3.0 / 4},
    {101, 2, 3, 96, 32, 32, 0, 32, 192, 2.0 / 3},
    {1000, 4, 7, 980, 140, 140, 0, 140, 3920, 6.0 / 7},
    {1000, 8, 8, 992, 124, 124, 0, 124, 7936, 7.0 / 8},
    {1024, 4, 8, 1024, 128, 128, 0, 128, 4096, 7.0 / 8},
    {1048576, 1, 32, 1048576, 32768, 32768, 0, 32768, 1048576, 31.0 / 32},
    {1000003, 2, 3, 999984, 333328, 333328, 0, 333328, 1999968, 2.0 / 3},
    {268435456, 4, 8, 268435456, 33554432, 33554432, 0, 33554432, 1073741824, 7.0 / 8},
    {8589934592, 8, 3, 8589934590, 2863311530, 2863311530, 0, 2863311530, 68719476720, 2.0 / 3},
    {8388608, 4, 2, 8388608, 4194304, 4194304, 0, 4194304, 33554432, 1.0 / 2},
};
/// Collectives in which all data of a rank goes to another rank unchanged, or into one reduction.
inline constexpr std::initializer_list<ShapeFact> kWholeFacts{
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
};

inline void check_facts(const Collective& collective, std::initializer_list<ShapeFact> facts) {
  for (const ShapeFact& fact : facts) {
    CAPTURE(fact.count);
    CAPTURE(fact.element_bytes);
    CAPTURE(fact.ranks);
    const Shape shape = collective.shape(fact.count, fact.element_bytes, fact.ranks);
    CHECK(shape.send_count == fact.send);
    CHECK(shape.recv_count == fact.recv);
    CHECK(shape.param_count == fact.param);
    CHECK(shape.send_inplace_offset == fact.send_offset);
    CHECK(shape.recv_inplace_offset == fact.recv_offset);
    const Traffic traffic = collective.traffic(shape, fact.element_bytes, fact.ranks);
    CHECK(traffic.algbw_bytes == fact.algbw_bytes);
    CHECK(traffic.bus_factor == doctest::Approx(fact.bus_factor).epsilon(1e-12));
  }
}

/// Origin of one element. Position -1: unknown.
struct Label {
  Segment::Source source = Segment::Source::untouched;
  int rank = 0;
  std::int64_t position = -1;
  auto operator<=>(const Label&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Label& label) {
  return out << "source " << static_cast<int>(label.source) << " rank " << label.rank << " position " << label.position;
}
using Labels = std::vector<Label>;

/// Labels of single elements for the given segments. Segments must not overlap; elements outside of them are unknown.
inline Labels labels_of(const Segments& segments, std::size_t count) {
  Labels labels(count, Label{Segment::Source::untouched, -1, -1});
  std::vector<bool> covered(count);
  for (const Segment& segment : segments) {
    REQUIRE(segment.offset + segment.count <= count);
    for (std::size_t i = 0; i < segment.count; ++i) {
      if (covered[segment.offset + i]) FAIL("segments overlap at element " << segment.offset + i);
      covered[segment.offset + i] = true;
      const bool moved = segment.source == Segment::Source::moved || segment.source == Segment::Source::contribution;
      const bool untouched = segment.source == Segment::Source::untouched;
      labels[segment.offset + i] = {segment.source, moved ? segment.source_rank : 0,
                                    untouched ? -1 : static_cast<std::int64_t>(segment.first + i)};
    }
  }
  return labels;
}

/// A case of a collective for the simulation.
struct Simulation {
  int ranks;
  int root;
  std::size_t recv_count;
  std::size_t share;  // elements from each rank to each, if all are equal
  std::vector<Labels> sends;  // by rank

  Labels nothing() const { return Labels(recv_count); }
  const Label& sent(int rank, std::size_t position) const { return sends[static_cast<std::size_t>(rank)].at(position); }
  /// Requires that every rank contributes the same position of its stream.
  Label reduced(std::size_t position) const {
    const std::int64_t at = sent(0, position).position;
    for (int rank = 0; rank < ranks; ++rank)
      if (sent(rank, position) != Label{Segment::Source::contribution, rank, at})
        FAIL("rank " << rank << " contributes " << sent(rank, position) << " at element " << position);
    return {Segment::Source::reduced, 0, at};
  }
};

/// Labels of a collective's result on `rank`, element by element.
inline Labels simulate(std::string_view collective, const Simulation& job, int rank) {
  Labels result = job.nothing();
  const auto each = [&](const std::function<Label(std::size_t)>& element) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = element(i);
  };
  const std::size_t mine = static_cast<std::size_t>(rank) * job.share;
  const auto sender = [&](std::size_t i) { return static_cast<int>(i / job.share); };
  if (collective == "all_reduce") each([&](std::size_t i) { return job.reduced(i); });
  if (collective == "reduce" && rank == job.root) each([&](std::size_t i) { return job.reduced(i); });
  if (collective == "reduce_scatter") each([&](std::size_t i) { return job.reduced(mine + i); });
  if (collective == "all_gather" || collective == "hypercube" || (collective == "gather" && rank == job.root))
    each([&](std::size_t i) { return job.sent(sender(i), i % job.share); });
  if (collective == "broadcast") each([&](std::size_t i) { return job.sent(job.root, i); });
  if (collective == "scatter") each([&](std::size_t i) { return job.sent(job.root, mine + i); });
  if (collective == "alltoall") each([&](std::size_t i) { return job.sent(sender(i), mine + i % job.share); });
  if (collective == "sendrecv") each([&](std::size_t i) { return job.sent((rank + job.ranks - 1) % job.ranks, i); });
  return result;
}

/// True if `simulate` supports the collective (the test of alltoallv has its own simulation).
inline bool can_simulate(std::string_view collective) {
  constexpr std::array known{"all_reduce", "reduce",  "reduce_scatter", "all_gather", "hypercube",
                             "gather",     "scatter", "broadcast",      "alltoall",   "sendrecv"};
  return std::ranges::find(known, collective) != known.end();
}

inline std::vector<int> roots_to_try(const Collective& collective, int ranks) {
  if (!collective.has_root()) return {-1};
  if (ranks == 1) return {0};
  return {0, ranks / 2, ranks - 1};
}

/// Labels of every rank's send buffer, checked against the shape.
inline std::vector<Labels> all_sends(const Collective& collective, const Shape& shape, std::size_t element_bytes,
                                     int ranks, int root) {
  std::vector<Labels> sends;
  for (int rank = 0; rank < ranks; ++rank) {
    Labels sent = labels_of(collective.send_segments(shape, {element_bytes, rank, ranks, root}), shape.send_count);
    for (const Label& label : sent) {
      if (label.rank < 0) continue;  // not sent
      if (label.rank != rank || (label.source == Segment::Source::contribution) != collective.reduces())
        FAIL("rank " << rank << " sends " << label);
    }
    sends.push_back(std::move(sent));
  }
  return sends;
}

/// Checks that `expected` covers 0 .. recv_count exactly once.
inline void check_covers(const Segments& expected, std::size_t recv_count) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const Segment& segment : expected)
    if (segment.count > 0) ranges.emplace_back(segment.offset, segment.offset + segment.count);
  std::ranges::sort(ranges);
  std::size_t end = 0;
  for (const auto& [from, to] : ranges) {
    REQUIRE(from == end);
    end = to;
  }
  REQUIRE(end == recv_count);
}

}  // namespace busbw
