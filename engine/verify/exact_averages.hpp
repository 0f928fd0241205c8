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
  normal,     // every average is a normal number, with all significant bits
  subnormal,  // no average is zero, but some may be subnormal, with fewer bits
  zero,       // every average is zero, because 1/ranks rounds to zero in the type
};

/// A positive number that has a unique average if one rank holds it and the others hold zero. Unique: every customary
/// computation of the average gives the same bits.
struct ExactAverage {
  double value;
  /// True if the average is also unique when two ranks hold the number. It is then twice the average of one.
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

/// True if every computation of an average in the type Compute gives `mean` after rounding to T. `contributors` (1 or
/// 2) of the `ranks` hold `x`, the others 0. A computation divides by the ranks, or multiplies by their inverse in T or
/// in Compute. It does so before or after it adds, which makes six computations. Neither the order of the ranks nor a
/// fused multiply-add leads to another result:
///
///   - Adding +0 changes nothing, and doubling a number is exact.
///   - A fused multiply-add computes y + p instead of y + y: p is the exact product of `x` and the inverse, and y is p
///     after rounding. If s is the spacing of numbers near y, p differs from y by at most s/2, and so does y + p from
///     2y. If y is normal, numbers near 2y have the spacing 2s, so y + p is rounded to 2y. If y is subnormal, they have
///     the spacing s. But 2y is an even multiple of s, so even a tie is rounded to 2y.
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

/// True if `gives_mean_in` holds for every type that libraries compute in: double, float, half if T has 8 bits, and T
/// itself. T needs no test, because a result in double, rounded to T, is the result in T. The reason: double holds each
/// product exactly, and shows on which side of a midpoint of T each quotient lies.
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
    const auto draw_below = [&](int bound) {
      return static_cast<int>(map_below(random_bits(i, 1), static_cast<unsigned>(bound)));
    };
    const int binades = std::ilogb(ranks) + 1;  // ranks < 2^binades
    const bool has_subnormal_inverse = -binades < kLimit.min_exponent;
    // A subnormal 1/ranks has few significant bits. For some ranks, hardly any normal average is then unique. Every
    // second candidate is therefore a number from 1/16 to 1: its average is subnormal and has few bits, too.
    if (has_subnormal_inverse && i % 2 == 1) return significand * power_of_two(-1 - draw_below(4));
    const int min_exponent = kLimit.min_exponent + binades;  // so that the mean is normal
    const int max_exponent = kLimit.max_exponent - 2;  // so that two have a finite sum
    return significand * power_of_two(min_exponent + draw_below(max_exponent - min_exponent + 1));
  }
}

}  // namespace averages

/// Finds numbers with unique averages for `ranks` ranks. For each of 1 .. 65,536 ranks, at least one number is found
/// (docs/explanation/correctness.md). Returns the first of these lists that is long enough:
/// 1. at least kMinNumbers numbers that two ranks can hold, with normal averages
/// 2. at least kMinNumbers numbers that two ranks can hold, with nonzero averages
/// 3. at least one number with a nonzero average
/// 4. numbers with the average 0
template <class T>
ExactAverages find_exact_averages(int ranks) {
  constexpr FloatLimits kLimit = kLimits<T>;
  constexpr std::size_t kCandidates = sizeof(T) == 1 ? 127 : 1024;  // an 8-bit type has 127 positive bit patterns
  constexpr std::size_t kMinNumbers = 4;
  ExactAverages normal_for_two_ranks{{}, AveragePrecision::normal};
  ExactAverages nonzero_for_two_ranks{{}, AveragePrecision::subnormal};  // includes normal averages
  ExactAverages nonzero{{}, AveragePrecision::subnormal};  // includes normal averages
  ExactAverages zero{{}, AveragePrecision::zero};
  for (std::size_t i = 0; i < kCandidates; ++i) {
    const double x = averages::make_candidate<T>(i, ranks);
    if (!(2 * x <= power_of_two(kLimit.max_exponent))) continue;  // two must have a finite sum; also skips NaN
    const double mean = to_double(round_to<T>(x / ranks));
    if (!averages::has_unique_average<T>(x, /*contributors=*/1, ranks, mean)) continue;
    const ExactAverage number{x, averages::has_unique_average<T>(x, /*contributors=*/2, ranks, 2 * mean)};
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
