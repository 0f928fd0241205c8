#include "common/os/random_bytes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace busbw;

TEST_CASE("random_bytes: no two are the same, and every one is filled") {
  std::set<std::array<std::byte, 16>> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_bytes<16>());
  CHECK(seen.size() == 1000);
  // Of 64 KiB of chance hardly any 32 in a row are zero; what was left out would be.
  std::vector<std::byte> many(65536);
  fill_randomly(many);
  for (auto part = many.begin(); part != many.end(); part += 32)
    CHECK(std::any_of(part, part + 32, [](std::byte one) { return one != std::byte{}; }));
  fill_randomly({});
}
