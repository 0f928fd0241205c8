#include "collectives/receiver_shares.hpp"

#include <cmath>

#include "collectives/registry.hpp"
#include "support_collective.hpp"
#include "support_errors.hpp"
#include "support_files.hpp"

using namespace busbw;

namespace {

std::vector<std::size_t> counts_of(const TrafficPattern& pattern, std::size_t count, std::size_t element_bytes) {
  const auto& shares = std::get<ReceiverShares>(pattern);
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < std::ssize(shares.ends); ++rank)
    counts.push_back(elements_of_receiver(shares, count, element_bytes, rank));
  return counts;
}

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

TEST_CASE("receiver shares: the counts of a sender sum to what is requested, for every pattern, type and size") {
  for (const int ranks : kRankCounts)
    for (const char* text : {"zipf:0", "zipf:0.7", "zipf:1.2,seed=9", "zipf:16", "hot:1", "hot:1,seed=3"})
      for (const std::size_t element_bytes : kElementSizes)
        for (const std::size_t count : kElementCounts) {
          CAPTURE(text);
          CAPTURE(ranks);
          CHECK(sum_of(counts_of(parse_skew(text, ranks), count, element_bytes)) == count);
        }
  CHECK(sum_of(counts_of(parse_skew("zipf:1.2", 1024), std::size_t{1} << 40, 4)) == std::size_t{1} << 40);
}

TEST_CASE("receiver shares: sorted by size, zipf's counts fall with the exponent of the rank") {
  constexpr std::size_t kCount = std::size_t{1} << 30;
  for (const double exponent : {0.0, 0.5, 1.0, 1.2, 2.0}) {
    auto counts = counts_of(zipf_shares(exponent, 5, 32), kCount, 1);
    std::ranges::sort(counts, std::greater{});
    double sum = 0;
    for (int k = 1; k <= 32; ++k) sum += 1 / std::pow(k, exponent);
    for (int k = 1; k <= 32; ++k) {
      const double expected = kCount / std::pow(k, exponent) / sum;
      // A share ends at a multiple of 2^-24, a count at one of 16 bytes.
      CHECK(std::abs(static_cast<double>(counts[static_cast<std::size_t>(k - 1)]) - expected) <=
            std::ldexp(kCount, -24) + 32);
    }
  }
}

TEST_CASE("receiver shares: only the hot ranks receive, in equal parts") {
  for (int hot = 1; hot <= 8; ++hot) {
    auto counts = counts_of(hot_shares(hot, 1, 8), 1 << 20, 4);
    std::ranges::sort(counts, std::greater{});
    for (int k = 0; k < 8; ++k)
      CHECK(std::abs(static_cast<double>(counts[static_cast<std::size_t>(k)]) - (k < hot ? (1 << 20) / hot : 0)) <= 8);
  }
}

TEST_CASE("receiver shares: the seed alone determines which ranks are popular") {
  CHECK(zipf_shares(1.2, 7, 16).ends == zipf_shares(1.2, 7, 16).ends);
  CHECK(zipf_shares(1.2, 7, 16).ends != zipf_shares(1.2, 8, 16).ends);
  // The same on every machine: position of the smallest of four numbers of std::mt19937_64.
  std::vector<std::ptrdiff_t> positions;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto counts = counts_of(hot_shares(1, seed, 4), 1 << 20, 4);
    positions.push_back(std::ranges::max_element(counts) - counts.begin());
  }
  CHECK(positions == std::vector<std::ptrdiff_t>{2, 3, 2, 1});
}

TEST_CASE("receiver shares: the busiest rank counts what it sends to others or receives from them") {
  const auto collective = make_alltoallv({.alltoallv = {.pattern = CountMatrix{{3, {5, 1, 0, 7, 0, 2, 9, 0, 4}}}}});
  const Shape shape = collective->shape(0, 4, 3);
  CHECK(shape.send_count == 13);
  CHECK(shape.recv_count == 21);
  const auto balance = collective->traffic_balance(shape, 4, 3);
  REQUIRE(balance);
  CHECK(balance->total_bytes == 28 * 4);
  CHECK(balance->busiest_bytes == (7 + 9) * 4);  // received by rank 0, without its own 5
  CHECK(collective->rank_count_error(3) == "");
  CHECK(collective->rank_count_error(2) != "");
}

TEST_CASE("--skew: invalid values are refused with the allowed ones") {
  const auto refused = [](const char* text, std::initializer_list<std::string_view> names) {
    CAPTURE(text);
    check_names(sentence_of<UsageError>([&] { parse_skew(text, 4); }), names);
  };
  for (const char* text : {"", "zip", "zipf", "zipf:", "uniform:1"}) refused(text, {"--skew", "zipf:EXPONENT"});
  refused("zipff:1", {"did you mean", "zipf"});
  for (const char* text : {"zipf:x", "zipf:-1", "zipf:17", "zipf:nan"}) refused(text, {text, "exponent", "0 to 16"});
  for (const char* text : {"hot:0", "hot:5", "hot:-1", "hot:1.5", "hot:x"}) refused(text, {text, "1 to 4"});
  for (const char* text : {"zipf:1,seed=x", "zipf:1,sed=1", "hot:1,"}) refused(text, {text, ",seed=N"});
  refused("file:/nowhere/counts", {"--skew file:/nowhere/counts", "no such file"});
}

TEST_CASE("--skew file: every invalid cell and form is refused with its position") {
  const auto refused = [](const std::string& content, std::initializer_list<std::string_view> names) {
    const TemporaryFile file(content);
    check_names(sentence_of<UsageError>([&] { read_count_matrix(file.path()); }), names);
  };
  refused("1 2\n3 -4\n", {"row 2 column 2", "-4", "negative"});
  refused("1 2.5\n3 4\n", {"row 1 column 2", "2.5", "whole number"});
  refused("1 x\n3 4\n", {"row 1 column 2", "whole number"});
  refused("1 99999999999999999999\n3 4\n", {"row 1 column 2", "too large"});
  refused("1 2\n3\n", {"row 2 has 1 columns"});
  refused("1 2\n", {"must be square"});
  refused("\n", {"no numbers"});
  const TemporaryFile zeros("0 0\n0 0\n");
  CHECK(read_count_matrix(zeros.path()).cells == std::vector<std::uint64_t>(4));
}
