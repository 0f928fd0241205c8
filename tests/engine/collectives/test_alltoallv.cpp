#include "collectives/registry.hpp"
#include "support_collective.hpp"

using namespace busbw;

namespace {

std::unique_ptr<Collective> with_spread(double spread, bool summary = false) {
  return make_alltoallv({.alltoallv = {.pattern = DistanceSpread{spread}, .print_summary = summary}});
}

std::unique_ptr<Collective> with_matrix(int ranks, std::vector<std::uint64_t> bytes,
                                        std::uint64_t max_bytes = 1 << 20) {
  return make_alltoallv({.alltoallv = {.pattern = ByteMatrix{{ranks, std::move(bytes)}, 1, max_bytes}}});
}

/// Elements from `source` to `destination`, taken from the segments that the destination expects.
std::size_t elements(const Collective& collective, const Shape& shape, std::size_t element_bytes, int source,
                     int destination, int ranks) {
  return collective.expected_segments(shape, {element_bytes, destination, ranks, -1})
      .at(static_cast<std::size_t>(source))
      .count;
}

/// Checks the order of all data. Each sender's stream, as its receivers expect it, is consecutive and ends with the
/// sender's data. Each receiver's data is in the order of the senders.
void check_exchange(const Collective& collective, const Shape& shape, std::size_t element_bytes, int ranks) {
  const auto sends = all_sends(collective, shape, element_bytes, ranks, -1);
  for (int source = 0; source < ranks; ++source) {
    std::size_t sent = 0;
    for (int destination = 0; destination < ranks; ++destination) {
      const Segments segments = collective.expected_segments(shape, {element_bytes, destination, ranks, -1});
      const Segment& segment = segments.at(static_cast<std::size_t>(source));
      REQUIRE(segment.source_rank == source);
      REQUIRE(segment.first == sent);
      sent += segment.count;
    }
    const Labels& send = sends[static_cast<std::size_t>(source)];
    REQUIRE(sent <= send.size());
    const auto unknown = [](const Label& label) { return label.position < 0; };
    REQUIRE(std::ranges::find_if(send, unknown) - send.begin() == static_cast<std::ptrdiff_t>(sent));
  }
  for (int rank = 0; rank < ranks; ++rank)
    check_covers(collective.expected_segments(shape, {element_bytes, rank, ranks, -1}), shape.recv_count);
}

}  // namespace

TEST_CASE("alltoallv: a spread of 0 sends equal shares, as alltoall does") {
  const auto even = with_spread(0);
  const auto alltoall = make_alltoall({});
  for (const int ranks : kRankCounts)
    for (const std::size_t element_bytes : kElementSizes) {
      const Shape shape = even->shape(1000, element_bytes, ranks);
      const Shape other = alltoall->shape(1000, element_bytes, ranks);
      CHECK(shape.send_count == other.send_count);
      CHECK(shape.recv_count == other.recv_count);
      CHECK(shape.param_count == other.param_count);
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(elements(*even, shape, element_bytes, 0, rank, ranks) == other.param_count);
    }
}

TEST_CASE("alltoallv: a spread of 1 sends in proportion to the distance, nothing to itself") {
  const auto skewed = with_spread(1);
  const Shape shape = skewed->shape(1536, 4, 4);  // 6144 bytes, in sixths: 0, 1024, 2048, 3072
  CHECK(shape.param_count == 384);
  CHECK(shape.send_count == 1536);
  CHECK(shape.recv_count == 1536);
  for (int source = 0; source < 4; ++source)
    for (int destination = 0; destination < 4; ++destination)
      CHECK(elements(*skewed, shape, 4, source, destination, 4) ==
            256u * static_cast<unsigned>((destination - source + 4) % 4));
}

TEST_CASE("alltoallv: a spread between blends the two, rounded down to 16 bytes") {
  // 6000 bytes: half of an even 1500 plus half of 0, 1000, 2000, 3000 gives 750, 1250, 1750, 2250.
  const auto blended = with_spread(0.5);
  const Shape shape = blended->shape(6016, 1, 4);
  CHECK(shape.param_count == 1504);
  // 6016 bytes: 752, 1253.3, 1754.7, 2256
  const std::vector<std::size_t> bytes{752, 1248, 1744, 2256};
  for (int destination = 0; destination < 4; ++destination)
    CHECK(elements(*blended, shape, 1, 0, destination, 4) == bytes[static_cast<std::size_t>(destination)]);
  CHECK(shape.send_count == 752 + 1248 + 1744 + 2256);
}

TEST_CASE("alltoallv: one rank keeps all data for every spread") {
  for (const double spread : {0.0, 0.5, 1.0}) {
    const Shape shape = with_spread(spread)->shape(1000, 4, 1);
    CHECK(shape.send_count == 1000);
    CHECK(shape.recv_count == 1000);
  }
}

TEST_CASE("alltoallv: expected data equals sent data, for every spread, size and number of ranks") {
  for (const double spread : {0.0, 0.1, 0.5, 0.9, 1.0})
    for (const int ranks : kRankCounts)
      for (const std::size_t element_bytes : kElementSizes)
        for (const std::size_t count : {std::size_t{0}, std::size_t{17}, std::size_t{4099}}) {
          CAPTURE(spread);
          CAPTURE(ranks);
          const auto collective = with_spread(spread);
          check_exchange(*collective, collective->shape(count, element_bytes, ranks), element_bytes, ranks);
        }
}

TEST_CASE("alltoallv: the matrix determines the amounts, the requested size has no effect, the count column is 0") {
  const auto collective = with_matrix(3, {96, 192, 144, 48, 96, 64, 288, 144, 192});
  for (const std::size_t count : {std::size_t{0}, std::size_t{1000}}) {
    const Shape shape = collective->shape(count, 4, 3);
    CHECK(shape.param_count == 0);
    CHECK(shape.send_count == (288 + 144 + 192) / 4);
    CHECK(shape.recv_count == (96 + 48 + 288) / 4);
    CHECK(collective->traffic(shape, 4, 3).algbw_bytes == 288 + 144 + 192);
    CHECK(collective->traffic(shape, 4, 3).bus_factor == doctest::Approx(2.0 / 3));
    for (const std::size_t element_bytes : kElementSizes)
      check_exchange(*collective, collective->shape(count, element_bytes, 3), element_bytes, 3);
  }
}

TEST_CASE("alltoallv: fewer ranks use the matrix's first rows and columns, more ranks are an error") {
  const auto collective = with_matrix(3, {96, 192, 144, 48, 96, 64, 288, 144, 192});
  const Shape shape = collective->shape(0, 1, 2);
  CHECK(shape.send_count == 96 + 192);
  CHECK(shape.recv_count == 192 + 96);
  check_exchange(*collective, shape, 1, 2);
  CHECK(collective->rank_count_error(2) == "");
  CHECK(collective->rank_count_error(3) == "");
  const std::string refusal = collective->rank_count_error(4);
  CHECK(refusal.find("3 ranks") != std::string::npos);
  CHECK(refusal.find('4') != std::string::npos);
}

TEST_CASE("alltoallv: a matrix that exceeds the buffers is an error that names the required size") {
  const std::vector<std::uint64_t> bytes{96, 192, 144, 48, 96, 64, 288, 144, 192};  // at most 624 sent, 432 received
  CHECK(with_matrix(3, bytes, 624)->rank_count_error(3) == "");
  const std::string refusal = with_matrix(3, bytes, 623)->rank_count_error(3);
  CHECK(refusal.find("624") != std::string::npos);
  CHECK(refusal.find("623") != std::string::npos);
  CHECK(refusal.find("-e") != std::string::npos);
  CHECK(with_matrix(3, bytes, 288)->rank_count_error(2) == "");  // uses the first two rows and columns
  CHECK(with_matrix(3, bytes, 287)->rank_count_error(2) != "");
}

TEST_CASE("alltoallv: the summary lists each rank's bytes, only on request") {
  CHECK_FALSE(with_spread(1)->rank_summary({}, 4, 4).has_value());
  const auto collective = with_spread(1, true);
  const auto summary = collective->rank_summary(collective->shape(1536, 4, 4), 4, 4);
  REQUIRE(summary);
  CHECK(summary->title == "mode=generated nranks=4 total_bytes=6144 spread=1.000");
  REQUIRE(summary->ranks.size() == 4);
  for (const auto& rank : summary->ranks) {
    CHECK(rank.sent == 6144);
    CHECK(rank.received == 6144);
  }
  const auto from_matrix =
      make_alltoallv({.alltoallv = {.pattern = ByteMatrix{{2, {16, 32, 48, 64}}, 0.5, 1000}, .print_summary = true}});
  const auto of_matrix = from_matrix->rank_summary(from_matrix->shape(0, 4, 2), 4, 2);
  REQUIRE(of_matrix);
  CHECK(of_matrix->title == "mode=matrix nranks=2 matrix_dim=2 scale=0.500");
  CHECK(of_matrix->ranks.at(0).sent == 48);
  CHECK(of_matrix->ranks.at(0).received == 64);
  CHECK(of_matrix->ranks.at(1).sent == 112);
}

TEST_CASE("alltoallv: a result in place is not defined, and no operator is named") {
  const auto collective = with_spread(1);
  CHECK_FALSE(collective->in_place_defined());
  CHECK_FALSE(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->no_redop_name() == "none");
}
