#include "values/float_formats.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace busbw;

namespace {

/// Value of a format's bits, computed from its definition.
struct Definition {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;
  bool saturates;
  double largest;
};
template <class T>
Definition definition();
template <>
Definition definition<Float16>() {
  return {5, 10, true, false, 65504};
}
template <>
Definition definition<Bfloat16>() {
  return {8, 7, true, false, std::ldexp(255.0, 120)};
}
template <>
Definition definition<F8e4m3>() {
  return {4, 3, false, true, 448};
}
template <>
Definition definition<F8e5m2>() {
  return {5, 2, true, true, 57344};
}

template <class T>
double by_definition(unsigned bits) {
  const Definition d = definition<T>();
  const unsigned fraction = bits & ((1u << d.fraction_bits) - 1);
  const unsigned exponent = (bits >> d.fraction_bits) & ((1u << d.exponent_bits) - 1);
  const unsigned all_ones = (1u << d.exponent_bits) - 1;
  const int bias = static_cast<int>(all_ones / 2);
  const double sign = bits >> (d.fraction_bits + d.exponent_bits) ? -1 : 1;
  if (exponent == all_ones && d.has_infinity) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == all_ones && fraction == (1u << d.fraction_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  const double significand = fraction + (exponent == 0 ? 0.0 : std::ldexp(1.0, d.fraction_bits));
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - d.fraction_bits);
}

/// Rounds to T with the C library's arithmetic: to a multiple of the spacing, ties to even.
template <class T>
double by_library(double value) {
  const Definition d = definition<T>();
  if (std::isnan(value)) return value;
  const double limit = std::copysign(d.saturates ? d.largest : std::numeric_limits<double>::infinity(), value);
  if (std::isinf(value)) return limit;
  const int min_exponent = 2 - (1 << (d.exponent_bits - 1));
  const int exponent = value == 0 ? min_exponent : std::max(std::ilogb(value), min_exponent);
  const double spacing = std::ldexp(1.0, exponent - d.fraction_bits);
  const double rounded = std::nearbyint(value / spacing) * spacing;
  return std::abs(rounded) > d.largest ? limit : rounded;
}

/// The nearest of all finite numbers, found by trying each. Of two equally near ones, the one with even bits.
template <class T>
double by_search(double value) {
  const double limit = 2 * definition<T>().largest;  // beyond it, the distances to two numbers are the same double
  const double wanted = std::clamp(value, -limit, limit);
  double best = 0;
  bool best_even = true;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const double candidate = by_definition<T>(bits);
    if (!std::isfinite(candidate)) continue;
    const double distance = std::abs(candidate - wanted);
    const double best_distance = std::abs(best - wanted);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0 && !best_even)) {
      best = candidate;
      best_even = bits % 2 == 0;
    }
  }
  return std::copysign(best, value);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// Numbers at which rounding is decided: every number of T, the midpoints, and their neighbors.
template <class T>
std::vector<float> hard_numbers() {
  std::vector<float> numbers{
      0.0f, 1e-45f, 1e-38f, 1e38f, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()};
  constexpr unsigned kPositive = 1u << (sizeof(T) * 8 - 1);
  for (unsigned bits = 0; bits + 1 < kPositive; ++bits) {
    const double value = by_definition<T>(bits);
    const double next = by_definition<T>(bits + 1);
    if (!std::isfinite(value)) continue;
    const double middle = std::isfinite(next) ? (value + next) / 2 : value + (value - by_definition<T>(bits - 1)) / 2;
    for (const double number : {value, middle}) {
      const auto at = static_cast<float>(number);
      numbers.insert(numbers.end(), {at, std::nextafter(at, 0.0f), std::nextafter(at, 1e38f)});
    }
  }
  const std::size_t positive = numbers.size();
  for (std::size_t i = 0; i < positive; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

std::vector<float> random_numbers(std::size_t count) {
  std::mt19937 random(1);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  return numbers;
}

template <class T>
std::size_t wrong_roundings(const std::vector<float>& numbers, double (*oracle)(double)) {
  std::size_t wrong = 0;
  for (const float number : numbers) {
    if (!same(static_cast<float>(T::from_float(number)), oracle(number))) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("every bit pattern means what the format says and survives a round trip", T, Float16, Bfloat16,
                   F8e4m3, F8e5m2) {
  std::size_t wrong = 0;
  for (unsigned bits = 0; bits < 1u << (sizeof(T) * 8); ++bits) {
    const T value = T::from_bits(static_cast<typename T::Bits>(bits));
    const auto number = static_cast<float>(value);
    if (!same(number, by_definition<T>(bits))) ++wrong;
    const T back = T::from_float(number);
    if (std::isnan(number)) {
      if (!std::isnan(static_cast<float>(back))) ++wrong;
    } else if (std::isinf(number) && definition<T>().saturates) {
      if (std::abs(static_cast<float>(back)) != definition<T>().largest) ++wrong;
    } else if (back != value) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("8-bit formats round to the nearest number", T, F8e4m3, F8e5m2) {
  CHECK(wrong_roundings<T>(hard_numbers<T>(), by_search<T>) == 0);
  CHECK(wrong_roundings<T>(random_numbers(20000), by_library<T>) == 0);
}

TEST_CASE_TEMPLATE("16-bit formats round to the nearest number", T, Float16, Bfloat16) {
  CHECK(wrong_roundings<T>(hard_numbers<T>(), by_library<T>) == 0);
  CHECK(wrong_roundings<T>(random_numbers(500000), by_library<T>) == 0);
}

TEST_CASE("8-bit formats saturate") {
  for (const float beyond : {449.0f, 464.0f, 465.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK(F8e4m3::from_float(beyond).bits == 0x7e);
    CHECK(F8e4m3::from_float(-beyond).bits == 0xfe);
  }
  for (const float beyond : {57345.0f, 61440.0f, 65536.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK(F8e5m2::from_float(beyond).bits == 0x7b);
    CHECK(F8e5m2::from_float(-beyond).bits == 0xfb);
  }
}

TEST_CASE("conversions are constant expressions") {
  static_assert(static_cast<float>(Float16::from_float(-1.5f)) == -1.5f);
  static_assert(Bfloat16::from_float(1).bits == 0x3f80);
  static_assert(static_cast<float>(F8e4m3::from_bits(1)) == 0x1p-9f);
}

TEST_CASE_TEMPLATE("the limits of a format are those of its numbers", T, Float16, Bfloat16, F8e4m3, F8e5m2) {
  const double largest = definition<T>().largest;
  CHECK(to_double(T::from_bits(T::kMaxFiniteBits)) == largest);
  CHECK(kLimits<T>.max_exponent == std::ilogb(largest));
  CHECK(std::ldexp(1.0, kLimits<T>.smallest_exponent()) == to_double(T::from_bits(1)));
  CHECK(std::ldexp(1.0, kLimits<T>.min_exponent) ==
        to_double(T::from_bits(static_cast<typename T::Bits>(1u << (kLimits<T>.significand_bits - 1)))));
}

TEST_CASE_TEMPLATE("a double is rounded once", T, Float16, Bfloat16, F8e4m3, F8e5m2) {
  std::size_t wrong = 0;
  for (const float at : hard_numbers<T>()) {
    for (const double number : {static_cast<double>(at), std::nextafter(static_cast<double>(at), 0.0),
                                std::nextafter(static_cast<double>(at), 1e300), at * (1 + 0x1p-30)}) {
      if (!same(to_double(round_to<T>(number)), by_library<T>(number))) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(std::isnan(to_double(round_to<T>(std::numeric_limits<double>::quiet_NaN()))));
  CHECK(round_to<float>(1 + 0x1p-24) == 1);
}
