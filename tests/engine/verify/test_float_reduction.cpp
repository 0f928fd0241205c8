#include "verify/float_reduction.hpp"

#include <cmath>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "reduce_in_orders.hpp"
#include "verify/reduction_values.hpp"

using namespace busbw;

namespace {

template <class T>
bool same_bits(T a, T b) {
  using Bits = typename BitsOf<T>::type;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

template <class C>
double rounded(double value) {
  return to_double(round_to<C>(value));
}

/// One step of a reduction with partial results in C.
template <class C>
double combine(Redop op, double a, double b) {
  if (op == Redop::max) return a > b ? a : b;
  if (op == Redop::min) return a < b ? a : b;
  return rounded<C>(op == Redop::prod ? a * b : a + b);
}

/// True if the step is exact, judged in long double.
template <class C>
bool step_is_exact(Redop op, double a, double b) {
  const auto x = static_cast<long double>(a);
  const auto y = static_cast<long double>(b);
  return combine<C>(op, a, b) == (op == Redop::prod ? x * y : x + y);
}

template <class T>
std::vector<double> inputs(const FloatReduction<T>& reduction, Redop op, int ranks, std::size_t position) {
  std::vector<double> values;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = to_double(reduction.contribution(rank, position));
    values.push_back(op == Redop::mulsum ? rounded<T>(value * mulsum_scalar(rank)) : value);
  }
  return values;
}

/// Calls visit.operator()<C>() for T and all wider formats that libraries accumulate in.
template <class T, class Visit>
void for_formats(const Visit& visit) {
  visit.template operator()<T>();
  if constexpr (sizeof(T) < 2) visit.template operator()<Float16>();
  if constexpr (sizeof(T) < 4) visit.template operator()<float>();
  if constexpr (sizeof(T) < 8) visit.template operator()<double>();
}

/// Calls check(result) for each way in which libraries compute the average: accumulated in C, stored in T, in several
/// orders.
template <class T, class C, class Check>
void for_averages(const std::vector<double>& values, std::mt19937& random, const Check& check) {
  const auto ranks = static_cast<double>(values.size());
  const auto store = [&](double result) { check(round_to<T>(result)); };
  const auto sum = [](double a, double b) { return rounded<C>(a + b); };
  const auto scaled = [&](const auto& scale) {
    std::vector<double> result = values;
    for (double& value : result) value = scale(value);
    return result;
  };
  const std::size_t start = random() % values.size();
  for (const double factor : {rounded<T>(1 / ranks), rounded<C>(1 / ranks)}) {
    // Multiplies the inputs, and rounds them to the type they are stored or accumulated in.
    test::for_orders(scaled([&](double x) { return rounded<T>(rounded<C>(x * factor)); }), random, sum, store);
    test::for_orders(scaled([&](double x) { return rounded<C>(x * factor); }), random, sum, store);
    // Multiplies and adds the inputs in one step, as a compiler may contract it.
    double fused = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[(start + i) % values.size()];
      fused = rounded<C>(std::is_same_v<C, double> ? std::fma(x, factor, fused) : x * factor + fused);
    }
    store(fused);
    // Multiplies the sum.
    test::for_orders(values, random, sum, [&](double total) { store(rounded<C>(total * factor)); });
  }
  // Divides the inputs, and divides the sum.
  store(test::reduce_tree(scaled([&](double x) { return rounded<C>(x / ranks); }), sum));
  test::for_orders(values, random, sum, [&](double total) { store(rounded<C>(total / ranks)); });
}

}  // namespace

TEST_CASE_TEMPLATE("sums, products and extremes are never rounded, in any order", T, Float16, float, double, Bfloat16,
                   F8e4m3, F8e5m2) {
  std::mt19937 random(1);
  for (const Redop op : {Redop::sum, Redop::prod, Redop::max, Redop::min, Redop::mulsum}) {
    for (const int ranks : test::kRanks) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const FloatReduction<T> reduction(op, ranks);
      std::size_t wrong = 0;
      std::size_t rounded_steps = 0;
      std::size_t improper = 0;
      for (const std::size_t position : test::positions(ranks)) {
        const std::vector<double> values = inputs(reduction, op, ranks, position);
        for (const double value : values) improper += !std::isfinite(value) || (value == 0 && std::signbit(value));
        const T expected = reduction.reduced(position);
        const auto check = [&](double result) { wrong += !same_bits(round_to<T>(result), expected); };
        const auto step = [&](double a, double b) {
          if (op != Redop::max && op != Redop::min) rounded_steps += !step_is_exact<T>(op, a, b);
          return combine<T>(op, a, b);
        };
        test::for_orders(values, random, step, check);
        for_formats<T>([&]<class C>() {
          check(test::reduce_tree(values, [op](double a, double b) { return combine<C>(op, a, b); }));
        });
      }
      CHECK(wrong == 0);
      CHECK(rounded_steps == 0);
      CHECK(improper == 0);
    }
  }
}

TEST_CASE_TEMPLATE("averages have the same bits in every way of computing them", T, Float16, float, double, Bfloat16,
                   F8e4m3, F8e5m2) {
  std::mt19937 random(2);
  std::vector<int> all_ranks(std::begin(test::kRanks), std::end(test::kRanks));
  all_ranks.insert(all_ranks.end(), {6, 9, 49, 72, 511, 513, 1023, 1024, 1025, 40001, 65535});
  for (const int ranks : all_ranks) {
    CAPTURE(ranks);
    const FloatReduction<T> reduction(Redop::avg, ranks);
    std::size_t wrong = 0;
    std::vector<std::size_t> positions = test::positions(ranks);
    std::shuffle(positions.begin(), positions.end(), random);
    positions.resize(std::clamp<std::size_t>(20000 / static_cast<std::size_t>(ranks), 4, 4000));
    for (const std::size_t position : positions) {
      const std::vector<double> values = inputs(reduction, Redop::avg, ranks, position);
      const T expected = reduction.reduced(position);
      for_formats<T>([&]<class C>() {
        for_averages<T, C>(values, random, [&](T result) { wrong += !same_bits(result, expected); });
      });
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE_TEMPLATE("results vary over the tile", T, Float16, float, double, Bfloat16, F8e4m3, F8e5m2) {
  for (const Redop op : kRedops) {
    for (const int ranks : test::kRanks) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const FloatReduction<T> reduction(op, ranks);
      std::set<double> results;
      std::size_t zeros = 0;
      for (std::size_t position = 0; position < kTileElements; ++position) {
        const double result = to_double(reduction.reduced(position));
        results.insert(result);
        zeros += result == 0;
      }
      if (reduction.exactness() != "exact") {
        CHECK(std::is_same_v<T, F8e4m3>);
        CHECK(ranks >= 1024);
        CHECK(zeros == kTileElements);
      } else {
        const bool few_means = sizeof(T) == 1 && op == Redop::avg && ranks >= 100;
        CHECK(results.size() >= (few_means ? 2 : sizeof(T) == 1 ? 20 : 100));
        CHECK(zeros < kTileElements / 2);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a lost rank and a rank that counts twice change the result somewhere in the tile", T, Float16,
                   float, double, Bfloat16, F8e4m3, F8e5m2) {
  for (const Redop op : kRedops) {
    for (const int ranks : {2, 3, 8, 9, 16, 100}) {
      CAPTURE(name(op));
      CAPTURE(ranks);
      const FloatReduction<T> reduction(op, ranks);
      const auto count = static_cast<std::size_t>(ranks);
      std::vector<bool> loss_shows(count);
      std::vector<bool> excess_shows(count);
      const auto reduce = [&](const std::vector<double>& values) {
        const double result = test::reduce_ring(values, 0, [op](double a, double b) { return combine<T>(op, a, b); });
        return round_to<T>(op == Redop::avg ? result / ranks : result);
      };
      for (std::size_t position = 0; position < 400; ++position) {
        const std::vector<double> values = inputs(reduction, op, ranks, position);
        const T expected = reduction.reduced(position);
        for (std::size_t rank = 0; rank < count; ++rank) {
          std::vector<double> changed = values;
          changed.push_back(values[rank]);
          if (!same_bits(reduce(changed), expected)) excess_shows[rank] = true;
          changed.pop_back();
          changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(rank));
          if (!same_bits(reduce(changed), expected)) loss_shows[rank] = true;
        }
      }
      CHECK(std::count(loss_shows.begin(), loss_shows.end(), false) == 0);
      if (op != Redop::max && op != Redop::min) {
        CHECK(std::count(excess_shows.begin(), excess_shows.end(), false) == 0);
      }
    }
  }
}
