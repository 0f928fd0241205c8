#include "verify/random.hpp"

#include <bit>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "values/dispatch.hpp"

using namespace busbw;

TEST_CASE("numbers below a bound cover exactly the allowed values") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t place = 0; place < 1000; ++place) seen.insert(map_below(random_bits(place, 0), 7));
  CHECK(seen == std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("one changed bit of the position changes about half of the bits drawn") {
  for (int bit = 0; bit < 40; ++bit) {
    const int changed = std::popcount(random_bits(12345, 6) ^ random_bits(12345 ^ (std::uint64_t{1} << bit), 6));
    CHECK(changed > 12);
    CHECK(changed < 52);
  }
}

TEST_CASE("finite values are finite, normal values are normal, and both are varied") {
  for (const Dtype dtype : kDtypes) {
    CAPTURE(name(dtype));
    with_element_type(dtype, []<class T>() {
      std::set<double> finite;
      bool all_finite = true;
      bool all_normal = true;
      for (std::uint64_t i = 0; i < 4096; ++i) {
        const double value = to_double(finite_value<T>(random_bits(i, 0)));
        all_finite = all_finite && std::isfinite(value);
        finite.insert(value);
        if constexpr (kIsFloat<T>) {
          const double normal = to_double(normal_value<T>(random_bits(i, 0)));
          all_normal = all_normal && std::isfinite(normal) && std::abs(normal) >= power_of_two(kLimits<T>.min_exponent);
        }
      }
      CHECK(all_finite);
      CHECK(all_normal);
      CHECK(finite.size() > (sizeof(T) == 1 ? 240 : 3900));
    });
  }
}

TEST_CASE("all finite patterns of an 8-bit type occur, and every number outside is replaced") {
  std::set<unsigned> seen;
  for (unsigned bits = 0; bits < 256; ++bits) seen.insert(finite_value<F8e4m3>(bits).bits);
  CHECK(seen.size() == 254);
  CHECK(!seen.contains(0x7f));
  CHECK(!seen.contains(0xff));
  CHECK(finite_value<F8e4m3>(0x7e).bits == 0x7e);
  CHECK(std::isfinite(static_cast<float>(finite_value<F8e5m2>(0x7c))));
}

TEST_CASE("powers of two") {
  for (const int exponent : {-1022, -149, -1, 0, 1, 1023}) CHECK(power_of_two(exponent) == std::ldexp(1.0, exponent));
}
