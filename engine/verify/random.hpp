#pragma once
// Pseudo-random values as a pure function of their position, the same on every machine.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "values/float_formats.hpp"
#include "verify/block_start.hpp"

namespace busbw {

/// Returns 64 random bits for `position`. Each position has 2^16 independent random numbers; `lane` selects one.
constexpr std::uint64_t random_bits(std::uint64_t position, std::uint32_t lane) {
  return mix_bits((position << 16) + lane);
}

/// Unsigned integer type with the size of T, for the bits of an element.
template <class T>
struct BitsOf {
  using UpTo16Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
  using UpTo32Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, UpTo16Bits>;
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, UpTo32Bits>;
};

/// Converts `random` to a T. For a floating-point type the result is finite: neither infinity nor NaN.
template <class T>
constexpr T finite_value(std::uint64_t random) {
  using Bits = typename BitsOf<T>::type;
  auto bits = static_cast<Bits>(random);
  if constexpr (kIsFloat<T>) {
    constexpr int kFractionBits = kLimits<T>.significand_bits - 1;
    constexpr int kSignPosition = static_cast<int>(sizeof(T)) * 8 - 1;
    constexpr auto kMagnitudeMask = static_cast<Bits>((Bits{1} << kSignPosition) - 1);
    // IEEE 754's formats reserve the highest exponent for infinity and NaN. f8e4m3 also uses it for numbers, so its
    // max_exponent is one larger.
    constexpr bool kHasInfinity = kLimits<T>.min_exponent == 1 - kLimits<T>.max_exponent;
    // Bit patterns from here on are infinity or NaN: from 0x7c00 for half. A type without infinity has one NaN, with
    // all bits set: 0x7f for f8e4m3.
    constexpr auto kFirstNotFinite =
        static_cast<Bits>(kHasInfinity ? kMagnitudeMask & ~((Bits{1} << kFractionBits) - 1) : kMagnitudeMask);
    // Inverting the top bit of the exponent gives a number near 1.
    if ((bits & kMagnitudeMask) >= kFirstNotFinite) bits = static_cast<Bits>(bits ^ (Bits{1} << (kSignPosition - 1)));
  }
  return std::bit_cast<T>(bits);
}

/// As finite_value, but for a floating-point type neither zero nor subnormal.
template <class T>
constexpr T normal_value(std::uint64_t random) {
  const T value = finite_value<T>(random);
  if constexpr (kIsFloat<T>) {
    using Bits = typename BitsOf<T>::type;
    constexpr int kFractionBits = kLimits<T>.significand_bits - 1;
    constexpr auto kMagnitudeMask = static_cast<Bits>((Bits{1} << (sizeof(T) * 8 - 1)) - 1);
    constexpr auto kFirstNormal = static_cast<Bits>(Bits{1} << kFractionBits);
    const auto bits = std::bit_cast<Bits>(value);
    if ((bits & kMagnitudeMask) < kFirstNormal) return std::bit_cast<T>(static_cast<Bits>(bits | kFirstNormal));
  }
  return value;
}

/// Returns 2^exponent for -1022 <= exponent <= 1023.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace busbw
