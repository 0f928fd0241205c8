#pragma once
// Reductions in the orders that collectives use, and the tile positions at which they are tested.
#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "verify/data_stream.hpp"

namespace busbw::test {

/// Numbers of ranks for which every type and operator is tested.
inline constexpr int kRanks[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 64, 100, 101, 1000, 65536};

/// All positions of a tile for few ranks, random ones for more. The arithmetic is the same under a sanitizer but takes
/// ten times as long. There, tens of thousands of ranks use fewer positions, at least 4.
inline std::vector<std::size_t> positions(int ranks) {
  constexpr std::size_t kContributions = 1u << 16;
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t kMin = 4;
#else
  constexpr std::size_t kMin = 24;
#endif
  std::vector<std::size_t> chosen(kTileElements);
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  if (ranks <= 8) return chosen;
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(std::clamp<std::size_t>(kContributions / static_cast<std::size_t>(ranks), kMin, kTileElements));
  return chosen;
}

/// Reduces one after the other, from `start` on and around, as a ring does.
template <class Value, class Combine>
Value reduce_ring(const std::vector<Value>& values, std::size_t start, const Combine& combine) {
  Value result = values[start];
  for (std::size_t i = start + 1; i < values.size(); ++i) result = combine(result, values[i]);
  for (std::size_t i = 0; i < start; ++i) result = combine(result, values[i]);
  return result;
}

/// Reduces neighbors in pairs, then pairs of pairs.
template <class Value, class Combine>
Value reduce_tree(std::vector<Value> values, const Combine& combine) {
  while (values.size() > 1) {
    std::size_t out = 0;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) values[out++] = combine(values[i], values[i + 1]);
    if (values.size() % 2 == 1) values[out++] = values.back();
    values.resize(out);
  }
  return values[0];
}

/// Calls check(result) for the result of each order.
template <class Value, class Combine, class Check>
void for_orders(std::vector<Value> values, std::mt19937& random, const Combine& combine, const Check& check) {
  check(reduce_ring(values, random() % values.size(), combine));
  check(reduce_tree(values, combine));
  std::shuffle(values.begin(), values.end(), random);
  check(reduce_ring(values, 0, combine));
  check(reduce_tree(values, combine));
}

}  // namespace busbw::test
