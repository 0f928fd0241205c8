#pragma once
// Numbers with an average that has the same bits in every customary way of computing it.
//
// If the number of ranks is not a power of two, an average is rounded, and libraries round in different places. NCCL
// multiplies by 1/ranks before or after it sums, in the type or in a wider one. Other libraries divide. For most
// numbers two of these ways differ in the last bit. The data therefore uses only numbers for which all ways agree.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "values/float_formats.hpp"
#include "verify/random.hpp"

namespace busbw {

/// Precision of a run's averages.
enum class AveragePrecision {
  normal,     // full precision
  subnormal,  // 1/ranks or the mean is below the type's smallest normal number
  zero,       // 1/ranks rounds to zero in the type, so that every average is zero
};

/// A positive number that has exactly one possible average if one rank holds it and the others hold zero.
struct ExactAverage {
  double value;
  /// True if the average is also unique when two ranks hold the number.
  bool twice;
};

struct ExactAverages {
  std::vector<ExactAverage> numbers;
  AveragePrecision range;
};

namespace averages {

/// Rounds to C, then to T.
template <class T, class C>
double round_through(double value) {
  return to_double(round_to<T>(to_double(round_to<C>(value))));
}

/// True if `contributors` (1 or 2) times `x` over `ranks` gives `mean` in every way that computes in C and stores in T.
template <class T, class C>
bool agrees_in(double x, int contributors, int ranks, double mean) {
  const double sum = contributors * x;
  const double in_t = to_double(round_to<T>(1.0 / ranks));
  const double in_c = to_double(round_to<C>(1.0 / ranks));
  return round_through<T, C>(sum / ranks) == mean && round_through<T, C>(sum * in_t) == mean &&
         round_through<T, C>(sum * in_c) == mean && contributors * round_through<T, C>(x / ranks) == mean &&
         contributors * round_through<T, C>(x * in_t) == mean && contributors * round_through<T, C>(x * in_c) == mean;
}

/// As agrees_in, for every format that libraries compute in. Computing in T itself gives the result of double: double
/// holds each product exactly and shows on which side of a midpoint each quotient is.
template <class T>
bool rounds_alike(double x, int contributors, int ranks, double mean) {
  bool all = agrees_in<T, double>(x, contributors, ranks, mean);
  if constexpr (sizeof(T) < 8) all = all && agrees_in<T, float>(x, contributors, ranks, mean);
  if constexpr (sizeof(T) < 2) all = all && agrees_in<T, Float16>(x, contributors, ranks, mean);
  return all;
}

/// Returns candidate `i`: all positive numbers of an 8-bit type, random numbers of a wider type.
template <class T>
double candidate(std::size_t i, int ranks) {
  if constexpr (sizeof(T) == 1) {
    return to_double(T::from_bits(static_cast<std::uint8_t>(i + 1)));
  } else {
    constexpr FloatLimits kLimit = kLimits<T>;
    const double significand = to_double(round_to<T>(1 + static_cast<double>(draw(i, 0) >> 11) * 0x1p-53));
    const int binades = std::ilogb(ranks) + 1;  // ranks < 2^binades
    // If 1/ranks is normal, the mean of a number with at least this exponent is normal, too.
    const int lowest = kLimit.min_exponent + binades;
    const int highest = kLimit.max_exponent - 2;
    const bool has_normal_factor = -binades >= kLimit.min_exponent;
    // Otherwise 1/ranks has few bits. Only small numbers can agree, because their mean has as few bits.
    const bool large = has_normal_factor || i % 2 == 0;
    const int spread = static_cast<int>(below(draw(i, 1), large ? static_cast<unsigned>(highest - lowest + 1) : 4));
    const int exponent = large ? lowest + spread : -1 - spread;
    return significand * power_of_two(exponent);
  }
}

}  // namespace averages

/// Numbers for `ranks` ranks. At least one exists for each of 1 .. 65,536 ranks (docs/checking.md).
template <class T>
ExactAverages find_exact_averages(int ranks) {
  constexpr FloatLimits kLimit = kLimits<T>;
  constexpr std::size_t kCandidates = sizeof(T) == 1 ? 127 : 1024;
  constexpr std::size_t kMinNumbers = 4;
  ExactAverages normal{{}, AveragePrecision::normal};
  ExactAverages twice_not_zero{{}, AveragePrecision::subnormal};
  ExactAverages not_zero{{}, AveragePrecision::subnormal};
  ExactAverages zero{{}, AveragePrecision::zero};
  for (std::size_t i = 0; i < kCandidates; ++i) {
    const double x = averages::candidate<T>(i, ranks);
    if (!(2 * x <= power_of_two(kLimit.max_exponent))) continue;  // also skips NaN
    const double mean = to_double(round_to<T>(x / ranks));
    if (!averages::rounds_alike<T>(x, 1, ranks, mean)) continue;
    const bool twice = averages::rounds_alike<T>(x, 2, ranks, 2 * mean);
    (mean == 0 ? zero : not_zero).numbers.push_back({x, twice});
    if (twice && mean != 0) twice_not_zero.numbers.push_back({x, twice});
    if (twice && mean >= power_of_two(kLimit.min_exponent)) normal.numbers.push_back({x, twice});
  }
  if (normal.numbers.size() >= kMinNumbers) return normal;
  if (twice_not_zero.numbers.size() >= kMinNumbers) return twice_not_zero;
  return not_zero.numbers.empty() ? zero : not_zero;
}

}  // namespace busbw
