#pragma once
// Finds inputs of floating-point averages (Redop::avg) for which every library computes a result with the same bits.
//
// If the number of ranks is not a power of two, an average is rounded, and libraries round in different places. NCCL
// multiplies by 1/ranks before or after it sums, in the type or in a wider one (2.30.7: src/enqueue.cc,
// src/scheduler/symmetric_sched.cc, src/device/reduce_kernel.h). Other libraries divide. For most numbers, some of
// these computations differ in the last bit. The data uses only numbers for which all of them give the same bits: one
// or two ranks have the number, the others +0. All numbers of ranks up to 65,536 were tried for all six types
// (docs/explanation/correctness.md).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "values/float_formats.hpp"
#include "verify/random.hpp"

namespace busbw {

/// Precision that the averages of a run can have.
enum class AveragePrecision {
  normal,     // full precision
  subnormal,  // 1/ranks or the mean is below the type's smallest normal number
  zero,       // 1/ranks rounds to zero in the type, so that every average is zero
};

/// A positive number that has a unique average if one rank holds it and the others hold zero. Unique: every customary
/// computation of the average gives the same bits.
struct ExactAverage {
  double value;
  /// True if the average is also unique when two ranks hold the number.
  bool allows_two_ranks;
};

/// Numbers for the inputs, and the precision of their averages.
struct ExactAverages {
  std::vector<ExactAverage> numbers;
  AveragePrecision precision;
};

namespace averages {

/// Rounds to the type Compute, then to T.
template <class T, class Compute>
double round_through(double value) {
  return to_double(round_to<T>(to_double(round_to<Compute>(value))));
}

/// True if `contributors` (1 or 2) times `x` over `ranks` gives `mean` in every computation in the type Compute with a
/// result in T. There are only the six computations below, for any order of the ranks:
///
///   - Adding +0 changes nothing. x + x is exact, and so is y + y for a rounded product y.
///   - Both inputs have one sign, so nothing cancels. A fused multiply-add rounds y + xr, where r is the inverse and xr
///     is at most half a spacing from y. The spacing at 2y is twice as large, so the result is 2y. Among subnormal
///     numbers the spacing is equal, but 2y is even, so the result is again 2y.
template <class T, class Compute>
bool gives_mean_in(double x, int contributors, int ranks, double mean) {
  const double sum = contributors * x;
  const double inverse_in_t = to_double(round_to<T>(1.0 / ranks));
  const double inverse_in_compute = to_double(round_to<Compute>(1.0 / ranks));
  for (const double average : {sum / ranks, sum * inverse_in_t, sum * inverse_in_compute})
    if (round_through<T, Compute>(average) != mean) return false;
  for (const double share : {x / ranks, x * inverse_in_t, x * inverse_in_compute})
    if (contributors * round_through<T, Compute>(share) != mean) return false;
  return true;
}

/// As gives_mean_in, for every type that libraries compute in: T, double, float, and half for 8-bit types. Computing in
/// T needs no test, because computing in double and rounding to T gives the same result: double holds each product
/// exactly and shows on which side of a midpoint each quotient is.
template <class T>
bool has_unique_average(double x, int contributors, int ranks, double mean) {
  bool is_unique = gives_mean_in<T, double>(x, contributors, ranks, mean);
  if constexpr (sizeof(T) < 8) is_unique = is_unique && gives_mean_in<T, float>(x, contributors, ranks, mean);
  if constexpr (sizeof(T) < 2) is_unique = is_unique && gives_mean_in<T, Float16>(x, contributors, ranks, mean);
  return is_unique;
}

/// Returns candidate number `i`. The candidates are all positive numbers of an 8-bit type, or random numbers of a wider
/// type.
template <class T>
double make_candidate(std::size_t i, int ranks) {
  if constexpr (sizeof(T) == 1) {
    return to_double(T::from_bits(static_cast<std::uint8_t>(i + 1)));
  } else {
    constexpr FloatLimits kLimit = kLimits<T>;
    const double from_0_to_1 = static_cast<double>(random_bits(i, 0) >> 11) * 0x1p-53;  // the upper 53 bits
    const double significand = to_double(round_to<T>(1 + from_0_to_1));
    const int binades = std::ilogb(ranks) + 1;  // ranks < 2^binades
    // If 1/ranks is normal, the mean of a number with at least this exponent is normal, too.
    const int min_exponent = kLimit.min_exponent + binades;
    const int max_exponent = kLimit.max_exponent - 2;
    const bool has_normal_inverse = -binades >= kLimit.min_exponent;
    // If 1/ranks is subnormal, it has few significant bits. Half of the candidates are then small numbers, because only
    // they can have a unique average: their mean has few bits, too.
    const bool is_large = has_normal_inverse || i % 2 == 0;
    const auto exponent_count = static_cast<unsigned>(is_large ? max_exponent - min_exponent + 1 : 4);
    const int exponent_offset = static_cast<int>(map_below(random_bits(i, 1), exponent_count));
    const int exponent = is_large ? min_exponent + exponent_offset : -1 - exponent_offset;
    return significand * power_of_two(exponent);
  }
}

}  // namespace averages

/// Finds numbers with unique averages for `ranks` ranks, with the best precision that at least kMinNumbers numbers
/// reach. For each of 1 .. 65,536 ranks, at least one number is found (docs/explanation/correctness.md).
template <class T>
ExactAverages find_exact_averages(int ranks) {
  constexpr FloatLimits kLimit = kLimits<T>;
  constexpr std::size_t kCandidates = sizeof(T) == 1 ? 127 : 1024;  // an 8-bit type has 127 positive bit patterns
  constexpr std::size_t kMinNumbers = 4;
  // Candidates with unique averages, from the best list to the worst. The names tell which averages a list has. The
  // first two lists have only numbers that two ranks can hold.
  ExactAverages normal_for_two_ranks{{}, AveragePrecision::normal};
  ExactAverages nonzero_for_two_ranks{{}, AveragePrecision::subnormal};
  ExactAverages nonzero{{}, AveragePrecision::subnormal};
  ExactAverages zero{{}, AveragePrecision::zero};
  for (std::size_t i = 0; i < kCandidates; ++i) {
    const double x = averages::make_candidate<T>(i, ranks);
    if (!(2 * x <= power_of_two(kLimit.max_exponent))) continue;  // also skips NaN
    const double mean = to_double(round_to<T>(x / ranks));
    if (!averages::has_unique_average<T>(x, 1, ranks, mean)) continue;
    const ExactAverage number{x, averages::has_unique_average<T>(x, 2, ranks, 2 * mean)};
    if (mean == 0) {
      zero.numbers.push_back(number);
      continue;
    }
    nonzero.numbers.push_back(number);
    if (!number.allows_two_ranks) continue;
    nonzero_for_two_ranks.numbers.push_back(number);
    if (mean >= power_of_two(kLimit.min_exponent)) normal_for_two_ranks.numbers.push_back(number);
  }
  if (normal_for_two_ranks.numbers.size() >= kMinNumbers) return normal_for_two_ranks;
  if (nonzero_for_two_ranks.numbers.size() >= kMinNumbers) return nonzero_for_two_ranks;
  return nonzero.numbers.empty() ? zero : nonzero;
}

}  // namespace busbw
