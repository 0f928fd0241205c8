#include "verify/mismatch.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("all mismatches are counted and the first few are kept bit by bit") {
  Mismatches mismatches;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::byte expected[2]{std::byte{1}, static_cast<std::byte>(i)};
    const std::byte got[2]{std::byte{2}, static_cast<std::byte>(i)};
    mismatches.add(100 + i, expected, got, 2);
  }
  CHECK(mismatches.count == 10);
  REQUIRE(mismatches.first.size() == Mismatches::kKept);
  CHECK(mismatches.first[0].index == 100);
  CHECK(mismatches.first[3].index == 103);
  CHECK(mismatches.first[3].expected == ElementBits{std::byte{1}, std::byte{3}});
  CHECK(mismatches.first[3].got == ElementBits{std::byte{2}, std::byte{3}});
}

TEST_CASE("mismatches that vanish are counted, with the first range that contained them") {
  Mismatches mismatches;
  mismatches.add_vanished(40, 3);
  mismatches.add_vanished(90, 2);
  CHECK(mismatches.count == 5);
  CHECK(mismatches.vanished == 5);
  CHECK(mismatches.vanished_range_start == 40);
  CHECK(mismatches.first.empty());
}
