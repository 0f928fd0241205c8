#pragma once
// Floating-point formats that C++20 lacks (half, bfloat16, 8-bit floats), as value types: bits and correctly rounded
// conversions. Conversions are inline, without branches or calls, so that compilers vectorize loops over them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace busbw {

/// Result of converting a number beyond the largest finite one.
enum class Overflow {
  infinity,  // infinity, as IEEE 754 rounding to nearest gives
  saturate,  // the largest finite number, also instead of infinity, as CUDA's __NV_SATFINITE gives
};

/// A format of one sign bit, `ExponentBits` of exponent and `FractionBits` of fraction, at most 16 bits in all.
/// `HasInfinity` is false for OCP's "fn" formats, in which all patterns are numbers except the two all-ones NaNs.
template <class BitsType, int ExponentBits, int FractionBits, bool HasInfinity, Overflow OnOverflow>
struct SmallFloat {
  using Bits = BitsType;

  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr Bits kSignBit = static_cast<Bits>(1u << (ExponentBits + FractionBits));
  static constexpr Bits kExponentMask = static_cast<Bits>(((1u << ExponentBits) - 1) << FractionBits);
  /// Patterns of the largest finite number and of the positive NaN.
  static constexpr Bits kMaxFiniteBits = static_cast<Bits>(HasInfinity ? kExponentMask - 1 : kSignBit - 2);
  static constexpr Bits kNanBits = static_cast<Bits>(kSignBit - 1);

  Bits bits = 0;

  static constexpr SmallFloat from_bits(Bits bits) {
    SmallFloat value;
    value.bits = bits;
    return value;
  }

  /// Rounds to the nearest number, ties to even. A NaN keeps its sign and gets all fraction bits set.
  static constexpr SmallFloat from_float(float value) {
    const auto value_bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = value_bits & kFloatMagnitudeMask;
    const std::uint32_t last_kept_bit = (magnitude >> kDroppedBits) & 1u;
    // Before the low bits are dropped, half of the last kept bit's value is added if that bit is 1. If it is 0, just
    // under half is added. So ties round to even.
    constexpr std::uint32_t kJustUnderHalf = (1u << (kDroppedBits - 1)) - 1;
    std::uint32_t rounded = (magnitude + kJustUnderHalf + last_kept_bit) >> kDroppedBits;
    if constexpr (kBias != kFloatBias) {
      // Replaces the exponent's bias.
      rounded -= static_cast<std::uint32_t>(kFloatBias - kBias) << FractionBits;
      // Subnormal results are multiples of the smallest one. Around kSpacer, neighboring floats have this distance. So
      // the processor rounds the sum with kSpacer to such a multiple, and the low bits of the sum are the result.
      constexpr float kSpacer = power_of_two(1 - kBias - FractionBits + kFloatFractionBits);
      const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kSpacer) -
                                      std::bit_cast<std::uint32_t>(kSpacer);
      // The smallest normal number of this format, as a float.
      constexpr auto kFirstNormal = static_cast<std::uint32_t>(kFloatBias - kBias + 1) << kFloatFractionBits;
      rounded = select(magnitude < kFirstNormal, subnormal, rounded);
    }
    constexpr std::uint32_t kOverflowBits = OnOverflow == Overflow::saturate ? kMaxFiniteBits : kExponentMask;
    // Compares as signed numbers, because SSE2 compares only those.
    rounded =
        select(static_cast<std::int32_t>(rounded) > static_cast<std::int32_t>(kOverflowBits), kOverflowBits, rounded);
    const bool is_nan = magnitude > kFloatInfinityBits;
    rounded = select(is_nan, kNanBits, rounded);
    return from_bits(static_cast<Bits>(rounded | ((value_bits >> 31) * kSignBit)));
  }

  constexpr explicit operator float() const {
    if constexpr (sizeof(Bits) == 1) {
      return kDecoded[bits];
    } else {
      return decode(bits);
    }
  }

  /// True if the bits are equal. Compare numbers as float.
  friend constexpr bool operator==(SmallFloat, SmallFloat) = default;

 private:
  // Format of float: fraction bits, exponent bias, and patterns without the sign.
  static constexpr int kFloatFractionBits = 23;
  static constexpr int kFloatBias = 127;
  static constexpr std::uint32_t kFloatMagnitudeMask = 0x7fffffffu;
  static constexpr std::uint32_t kFloatInfinityBits = 0x7f800000u;
  static constexpr std::uint32_t kFloatNanBits = 0x7fffffffu;
  static constexpr int kDroppedBits = kFloatFractionBits - FractionBits;

  /// Selects by masks, because compilers turn conditional expressions over floating-point results into branches.
  static constexpr std::uint32_t select(bool condition, std::uint32_t if_true, std::uint32_t if_false) {
    const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
    return (if_true & mask) | (if_false & ~mask);
  }

  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + kFloatBias) << kFloatFractionBits);
  }

  static constexpr float decode(Bits bits) {
    const std::uint32_t magnitude = bits & static_cast<Bits>(kSignBit - 1);
    std::uint32_t result = magnitude << kDroppedBits;
    if constexpr (kBias != kFloatBias) {
      // Replaces the exponent's bias.
      result += static_cast<std::uint32_t>(kFloatBias - kBias) << kFloatFractionBits;
      constexpr float kSmallest = power_of_two(1 - kBias - FractionBits);
      // A subnormal number is a multiple of the smallest one.
      const auto subnormal =
          std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * kSmallest);
      result = select(magnitude < (1u << FractionBits), subnormal, result);
      if constexpr (HasInfinity) {
        result = select(magnitude >= kExponentMask, kFloatInfinityBits | (magnitude << kDroppedBits), result);
      } else {
        result = select(magnitude == kNanBits, kFloatNanBits, result);
      }
    }
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & kSignBit) << (31 - ExponentBits - FractionBits);
    return std::bit_cast<float>(result | sign);
  }

  /// Values of all patterns of an 8-bit format. Unused for wider formats.
  static constexpr std::array<float, 256> decode_all() {
    std::array<float, 256> values{};
    if constexpr (sizeof(Bits) == 1) {
      for (std::size_t bits = 0; bits < values.size(); ++bits) values[bits] = decode(static_cast<Bits>(bits));
    }
    return values;
  }

  static const std::array<float, 256> kDecoded;
};

template <class B, int E, int F, bool I, Overflow O>
inline constexpr std::array<float, 256> SmallFloat<B, E, F, I, O>::kDecoded = SmallFloat<B, E, F, I, O>::decode_all();

/// IEEE 754 binary16, CUDA's __half.
using Float16 = SmallFloat<std::uint16_t, 5, 10, true, Overflow::infinity>;
/// The upper half of a float, CUDA's __nv_bfloat16.
using Bfloat16 = SmallFloat<std::uint16_t, 8, 7, true, Overflow::infinity>;
/// OCP 8-bit E4M3 (OFP8 specification 1.0): no infinity, NaN is 0x7f and 0xff, largest number 448.
using F8e4m3 = SmallFloat<std::uint8_t, 4, 3, false, Overflow::saturate>;
/// OCP 8-bit E5M2: like IEEE 754, largest number 57344.
using F8e5m2 = SmallFloat<std::uint8_t, 5, 2, true, Overflow::saturate>;

/// Properties of a floating-point type that arithmetic depends on.
struct FloatLimits {
  int significand_bits;  // includes the hidden bit: integers up to 2^significand_bits are exact
  int min_exponent;      // 2^min_exponent is the smallest normal number
  int max_exponent;      // 2^max_exponent is the largest power of two
  /// Exponent of the smallest number above zero.
  constexpr int smallest_exponent() const { return min_exponent - significand_bits + 1; }
};

/// Limits of a floating-point type T; kLimits<T> is the short form.
template <class T>
struct LimitsOf;
template <>
struct LimitsOf<double> {
  static constexpr FloatLimits value{53, -1022, 1023};
};
template <>
struct LimitsOf<float> {
  static constexpr FloatLimits value{24, -126, 127};
};
template <class B, int E, int F, bool I, Overflow O>
struct LimitsOf<SmallFloat<B, E, F, I, O>> {
  static constexpr int kBias = SmallFloat<B, E, F, I, O>::kBias;
  static constexpr FloatLimits value{F + 1, 1 - kBias, I ? kBias : kBias + 1};
};
template <class T>
inline constexpr FloatLimits kLimits = LimitsOf<T>::value;

/// True for the floating-point types here, built-in or not.
template <class T>
inline constexpr bool kIsFloat = !std::is_integral_v<T>;

/// Rounds a double to T once: to nearest, ties to even.
template <class T>
constexpr T round_to(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
    // Rounding to float and then to T can round twice in one direction. So a `value` that is no float is first rounded
    // to odd: to the one of the two floats around it that has an odd last bit. Such a float is no midpoint of a format
    // with at least two bits fewer. So rounding it to T gives the result of a single rounding (Boldo and Melquiond,
    // 2008).
    const auto nearest = static_cast<float>(value);
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    const auto nearest_value = static_cast<double>(nearest);
    const bool is_inexact = nearest_value < value || nearest_value > value;
    if (is_inexact && (bits & 1u) == 0) {
      const bool too_far_from_zero = (nearest_value > value) == (value > 0);
      bits = too_far_from_zero ? bits - 1 : bits + 1;
    }
    return T::from_float(std::bit_cast<float>(bits));
  }
}

/// Converts to double; exact for every floating-point type here.
template <class T>
constexpr double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

}  // namespace busbw
