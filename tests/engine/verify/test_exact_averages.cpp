#include "verify/exact_averages.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE_TEMPLATE("numbers to average exist for every number of ranks", T, Float16, float, double, Bfloat16, F8e4m3,
                   F8e5m2) {
  // Every number of ranks up to 300, then sparser ones, and the largest.
  for (int ranks = 1; ranks <= 65536; ranks += ranks < 300 ? 1 : ranks < 65000 ? 97 + ranks / 16 : 67) {
    CAPTURE(ranks);
    const ExactAverages found = find_exact_averages<T>(ranks);
    CHECK(!found.numbers.empty());
    const double smallest_normal = std::ldexp(1.0, kLimits<T>.min_exponent);
    bool proper = true;
    for (const ExactAverage& number : found.numbers) {
      const double mean = to_double(round_to<T>(number.value / ranks));
      proper = proper && number.value > 0 && to_double(round_to<T>(number.value)) == number.value &&
               std::isfinite(to_double(round_to<T>(2 * number.value))) &&
               (mean == 0) == (found.precision == AveragePrecision::zero);
      if (found.precision == AveragePrecision::normal)
        proper = proper && mean >= smallest_normal && number.allows_two_ranks;
    }
    CHECK(proper);
  }
}

TEST_CASE("only 8-bit averages over 1,024 ranks and more are all zero") {
  CHECK(find_exact_averages<F8e4m3>(1023).precision == AveragePrecision::subnormal);
  CHECK(find_exact_averages<F8e4m3>(1024).precision == AveragePrecision::zero);
  CHECK(find_exact_averages<F8e4m3>(65536).precision == AveragePrecision::zero);
  CHECK(find_exact_averages<F8e5m2>(65535).precision != AveragePrecision::zero);
  CHECK(find_exact_averages<Float16>(65535).precision != AveragePrecision::zero);
  CHECK(find_exact_averages<Bfloat16>(65535).precision == AveragePrecision::normal);
}

TEST_CASE("numbers with an ambiguous average are detected") {
  // 5 * 0.1f is 0.5 and so is 5 / 10; in half, 3 * fl(1/3) is 0.99976 before rounding and 1 after it.
  CHECK(averages::has_unique_average<float>(5, 1, 10, 0.5));
  CHECK(averages::has_unique_average<Float16>(3, 1, 3, 1));
  // 7 / 3 in bfloat16 is 2.328125; 7 times the bfloat16 next to 1/3 is 2.34375.
  CHECK(!averages::has_unique_average<Bfloat16>(7, 1, 3, to_double(round_to<Bfloat16>(7.0 / 3))));
  // 3.75 / 167 in f8e4m3 is 11 * 2^-9. It is 12 * 2^-9 if half multiplies by 1/167, because that result is a midpoint.
  const double mean = to_double(round_to<F8e4m3>(3.75 / 167));
  CHECK(averages::gives_mean_in<F8e4m3, double>(3.75, 1, 167, mean));
  CHECK(!averages::gives_mean_in<F8e4m3, Float16>(3.75, 1, 167, mean));
  CHECK(!averages::has_unique_average<F8e4m3>(3.75, 1, 167, mean));
}
