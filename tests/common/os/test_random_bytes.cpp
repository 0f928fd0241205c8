#include "common/os/random_bytes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace busbw;

TEST_CASE("random_bytes: results differ, and every byte is filled") {
  std::set<std::array<std::byte, 16>> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_bytes<16>());
  CHECK(seen.size() == 1000);
  // In 64 KiB of random data, 32 zeros in a row practically never occur. Unfilled bytes would be zero.
  std::vector<std::byte> many(65536);
  fill_randomly(many);
  for (auto part = many.begin(); part != many.end(); part += 32)
    CHECK(std::any_of(part, part + 32, [](std::byte one) { return one != std::byte{}; }));
  fill_randomly({});
}
