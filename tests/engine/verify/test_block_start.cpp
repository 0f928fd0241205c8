#include "verify/block_start.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("block_start: the same on every machine, and a constant expression") {
  // Expected values from another implementation: Python's unbounded integers, masked to 64 bits.
  static_assert(mix_bits(0) == 0xe220a8397b1dcdafu);
  static_assert(mix_bits(1) == 0x910a2dec89025cc1u);
  static_assert(map_below(0xffffffffffffffffu, 7) == 6);
  static_assert(map_below(0, 7) == 0);
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (std::uint64_t block = 0; block < 100; ++block)
      CHECK(block_start(seed, block) <= kTileElements - kBlockElements);
}
