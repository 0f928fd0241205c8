#include "verify/data_stream.hpp"

#include <set>

#include <doctest/doctest.h>

using namespace busbw;

namespace {

DataStream counting_stream(std::uint64_t seed) {
  auto bytes = std::make_shared<std::vector<std::byte>>(kTileElements * 2);
  for (std::size_t i = 0; i < kTileElements; ++i) {
    (*bytes)[2 * i] = static_cast<std::byte>(i & 255);
    (*bytes)[2 * i + 1] = static_cast<std::byte>(i >> 8);
  }
  return {bytes, 2, seed};
}

std::size_t element(const std::byte* at) {
  return std::to_integer<std::size_t>(at[0]) + (std::to_integer<std::size_t>(at[1]) << 8);
}

}  // namespace

TEST_CASE("a block is a run of the tile from its start on") {
  const DataStream stream = counting_stream(3);
  for (const std::uint64_t block : {0ull, 1ull, 2ull, 1000000007ull, ~0ull / kBlockElements}) {
    const std::size_t start = block_start(stream.seed, block);
    CHECK(start <= kTileElements - kBlockElements);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, kBlockElements - 1}) {
      CHECK(element(stream.at(block * kBlockElements + i)) == start + i);
    }
  }
}

TEST_CASE("blocks start all over the tile, at different positions for other seeds or blocks") {
  const DataStream one = counting_stream(1);
  const DataStream two = counting_stream(2);
  std::set<std::size_t> starts;
  int equal_over_seeds = 0;
  int equal_over_blocks = 0;
  for (std::uint64_t block = 0; block < 20000; ++block) {
    const std::size_t start = block_start(one.seed, block);
    starts.insert(start);
    equal_over_seeds += start == block_start(two.seed, block);
    equal_over_blocks += start == block_start(one.seed, block + 1);
  }
  CHECK(starts.size() > 10000);  // of 14,337
  CHECK(*starts.begin() < 10);
  CHECK(*starts.rbegin() > kTileElements - kBlockElements - 10);
  CHECK(equal_over_seeds < 10);  // 1.4 on average
  CHECK(equal_over_blocks < 10);
}
