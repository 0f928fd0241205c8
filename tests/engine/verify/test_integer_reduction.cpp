#include "verify/integer_reduction.hpp"

#include <cstdint>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "reduce_in_orders.hpp"
#include "verify/reduction_values.hpp"

using namespace busbw;

namespace {

/// One step of a library in type T. Unsigned arithmetic wraps around.
template <class T>
T combine(Redop op, T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  if (op == Redop::max) return a > b ? a : b;
  if (op == Redop::min) return a < b ? a : b;
  const auto x = static_cast<std::uint64_t>(static_cast<Unsigned>(a));
  const auto y = static_cast<std::uint64_t>(static_cast<Unsigned>(b));
  return static_cast<T>(op == Redop::prod ? x * y : x + y);
}

template <class T>
std::vector<T> inputs(const IntegerReduction<T>& reduction, Redop op, int ranks, std::size_t position) {
  std::vector<T> values;
  for (int rank = 0; rank < ranks; ++rank) {
    const T value = reduction.contribution(rank, position);
    const T scalar = op == Redop::mulsum ? static_cast<T>(mulsum_scalar(rank)) : T{1};
    values.push_back(combine(Redop::prod, value, scalar));
  }
  return values;
}

template <class T>
T reduce(Redop op, const std::vector<T>& values) {
  const T result = test::reduce_ring(values, 0, [op](T a, T b) { return combine(op, a, b); });
  return op == Redop::avg ? static_cast<T>(result / static_cast<std::int64_t>(values.size())) : result;
}

}  // namespace

TEST_CASE_TEMPLATE("integers have one result in any order", T, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t,
                   std::int64_t, std::uint64_t) {
  std::mt19937 random(1);
  for (const Redop op : kRedops) {
    for (const int ranks : test::kRanks) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const IntegerReduction<T> reduction(op, ranks);
      std::size_t wrong = 0;
      bool avg_overflows = false;
      for (const std::size_t position : test::positions(ranks)) {
        const std::vector<T> values = inputs(reduction, op, ranks, position);
        const T expected = reduction.reduced(position);
        test::for_orders(
            values, random, [op](T a, T b) { return combine(op, a, b); },
            [&](T result) {
              if (op == Redop::avg) {
                result = static_cast<T>(static_cast<std::uint64_t>(result) / static_cast<std::uint64_t>(ranks));
              }
              wrong += result != expected;
            });
        if (op == Redop::avg) {
          __extension__ using Wide = __int128;
          Wide sum = 0;
          for (const T value : values) {
            avg_overflows = avg_overflows || value < 0;
            sum += value;
          }
          avg_overflows = avg_overflows || sum > std::numeric_limits<T>::max();
        }
      }
      CHECK(wrong == 0);
      CHECK(!avg_overflows);
    }
  }
}

TEST_CASE_TEMPLATE("results vary over the tile", T, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t,
                   std::int64_t, std::uint64_t) {
  for (const Redop op : kRedops) {
    for (const int ranks : test::kRanks) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const IntegerReduction<T> reduction(op, ranks);
      std::set<T> results;
      for (std::size_t position = 0; position < kTileElements; ++position) results.insert(reduction.reduced(position));
      if (op == Redop::avg) {
        const bool all_zero = reduction.exactness() != "exact";
        CHECK(all_zero ==
              (static_cast<std::uint64_t>(ranks) > static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
        CHECK((results.size() > 1) == !all_zero);
      } else {
        CHECK(results.size() > (op == Redop::max || op == Redop::min ? 30 : 100));
      }
    }
  }
}

TEST_CASE_TEMPLATE("a lost rank and a rank that counts twice change the result somewhere in the tile", T, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint64_t) {
  for (const Redop op : kRedops) {
    for (const int ranks : {2, 3, 8, 9, 16, 100}) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const IntegerReduction<T> reduction(op, ranks);
      const auto count = static_cast<std::size_t>(ranks);
      std::vector<bool> loss_shows(count);
      std::vector<bool> excess_shows(count);
      for (std::size_t position = 0; position < 400; ++position) {
        const std::vector<T> values = inputs(reduction, op, ranks, position);
        const T expected = reduction.reduced(position);
        for (std::size_t rank = 0; rank < count; ++rank) {
          std::vector<T> changed = values;
          changed.push_back(values[rank]);
          if (op != Redop::avg && reduce(op, changed) != expected) excess_shows[rank] = true;
          changed.resize(count);
          if (op == Redop::avg) {
            changed[rank] = 0;
          } else {
            changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(rank));
          }
          if (reduce(op, changed) != expected) loss_shows[rank] = true;
        }
      }
      CHECK(std::count(loss_shows.begin(), loss_shows.end(), false) == 0);
      if (op == Redop::sum || op == Redop::prod || op == Redop::mulsum) {
        CHECK(std::count(excess_shows.begin(), excess_shows.end(), false) == 0);
      }
    }
  }
}
