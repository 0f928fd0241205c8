#pragma once
// Floating-point data for reductions that never round a partial result. The result has the same bits in any order of
// reduction, in the type or in a wider accumulator.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "common/values/types.hpp"
#include "values/float_formats.hpp"
#include "verify/contribution_slots.hpp"
#include "verify/exact_averages.hpp"
#include "verify/extremes.hpp"
#include "verify/random.hpp"

namespace busbw {

/// Elements of one reduction over floating-point numbers of type T (docs/checking.md).
template <class T>
class FloatReduction {
 public:
  FloatReduction(Redop op, int ranks)
      : op_(op),
        rounds_(op == Redop::avg && !has_exact_inverse(ranks)),
        slots_(ranks, values_per_element(op, rounds_)) {
    if (rounds_) exact_averages_ = find_exact_averages<T>(ranks);
  }

  /// Input of `rank` at `position` of the tile.
  T contribution(int rank, std::size_t position) const {
    const int slot = slots_.slot_of(rank, position);
    const bool drawn = slot < slots_.count();
    switch (op_) {
      case Redop::max:
      case Redop::min: return extreme(slot, position);
      case Redop::prod: return round_to<T>(drawn ? factor(slot, position) : sign_filler(position));
      case Redop::avg:
        if (rounds_) return round_to<T>(drawn ? averaged(slot, position) : 0.0);
        break;
      case Redop::sum:
      case Redop::mulsum: break;
    }
    if (!drawn) return T{};
    return round_to<T>(static_cast<double>(integer(slot, position)) * power_of_two(scale(position)));
  }

  /// Result of the reduction at `position` of the tile.
  T reduced(std::size_t position) const {
    const int count = slots_.count();
    switch (op_) {
      case Redop::max:
      case Redop::min: return extreme(0, position);
      case Redop::prod: {
        double product = (slots_.ranks() - count) % 2 == 0 ? 1 : sign_filler(position);
        for (int slot = 0; slot < count; ++slot) product *= factor(slot, position);
        return round_to<T>(product);
      }
      case Redop::avg:
        if (rounds_) {
          double sum = 0;
          for (int slot = 0; slot < count; ++slot) sum += averaged(slot, position);
          return round_to<T>(sum / slots_.ranks());
        }
        break;
      case Redop::sum:
      case Redop::mulsum: break;
    }
    std::int64_t sum = 0;
    for (int slot = 0; slot < count; ++slot) {
      const bool doubled = op_ == Redop::mulsum && slots_.rank_of(slot, position) % 2 == 1;
      sum += doubled ? 2 * integer(slot, position) : integer(slot, position);
    }
    const double divisor = op_ == Redop::avg ? slots_.ranks() : 1;
    return round_to<T>(static_cast<double>(sum) * power_of_two(scale(position)) / divisor);
  }

  /// "exact", or a statement of what the data cannot show.
  std::string policy() const {
    if (!rounds_ || exact_averages_.range != AveragePrecision::zero) return "exact";
    return fmt::format("exact, but each average is 0: 1/{} rounds to 0 in this type", slots_.ranks());
  }

 private:
  static constexpr FloatLimits kLimit = kLimits<T>;
  // Lanes of an element's random numbers; slots use 0 .. 15.
  static constexpr std::uint32_t kScaleLane = 16;
  static constexpr std::uint32_t kOrderLane = 17;
  static constexpr std::uint32_t kSignLane = 18;
  static constexpr std::uint32_t kBitsLane = 32;

  /// True if 1/ranks is a number of the type. Averages are then never rounded.
  static bool has_exact_inverse(int ranks) {
    const auto n = static_cast<unsigned>(ranks);
    return std::has_single_bit(n) && -std::countr_zero(n) >= kLimit.smallest_exponent();
  }

  static int values_per_element(Redop op, bool rounds) {
    if (rounds) return 2;
    if (op == Redop::max || op == Redop::min) return 8;
    return op == Redop::prod || kLimit.significand_bits < 8 ? 4 : 8;
  }

  /// For sum, mulsum and avg: a nonzero integer. The magnitudes of an element's integers, times their scalars, sum to
  /// at most 2^significand_bits.
  std::int64_t integer(int slot, std::size_t position) const {
    const std::uint64_t bound = (std::uint64_t{1} << kLimit.significand_bits) /
                                static_cast<std::uint64_t>(slots_.count() * (op_ == Redop::mulsum ? 2 : 1));
    const std::uint64_t random = draw(position, static_cast<std::uint32_t>(slot));
    const auto magnitude = static_cast<std::int64_t>(1 + (random >> 1) % bound);
    return random & 1 ? -magnitude : magnitude;
  }

  /// Exponent of the power of two that multiplies an element's integers. The smallest product is normal even as an
  /// average, and the sum is finite.
  int scale(std::size_t position) const {
    const int averaging = op_ == Redop::avg ? std::countr_zero(static_cast<unsigned>(slots_.ranks())) : 0;
    const int lowest = kLimit.min_exponent + averaging;
    const int highest = kLimit.max_exponent - kLimit.significand_bits;
    const auto choices = static_cast<std::uint64_t>(highest - lowest + 1);
    return lowest + static_cast<int>(below(draw(position, kScaleLane), choices));
  }

  /// For prod: an integer times a power of two. The product of an element's integers is below 2^significand_bits, and
  /// the powers keep the product of any factors a normal number.
  double factor(int slot, std::size_t position) const {
    const int count = slots_.count();
    // The significand's bits are distributed at random, starting at a random slot. The last slot takes the rest.
    const int start = static_cast<int>(below(draw(position, kOrderLane), static_cast<std::uint64_t>(count)));
    int left = kLimit.significand_bits;
    int bits = 0;
    for (int index = 0; index < count; ++index) {
      bits = index == count - 1 ? left
                                : static_cast<int>(below(draw(position, kBitsLane + static_cast<std::uint32_t>(index)),
                                                         static_cast<std::uint64_t>(left + 1)));
      if ((start + index) % count == slot) break;
      left -= bits;
    }
    const std::uint64_t random = draw(position, static_cast<std::uint32_t>(slot));
    const std::uint64_t significand = bits == 0 ? 1 : 1 + (random >> 1) % ((std::uint64_t{1} << bits) - 1);
    const int lowest = -(-kLimit.min_exponent / count);
    const int highest = kLimit.max_exponent / count - 1;
    const std::uint64_t choice = below(mix(random), static_cast<std::uint64_t>(highest - lowest + 1));
    const double from_1_to_2 = static_cast<double>(significand) / static_cast<double>(std::bit_floor(significand));
    const double magnitude = from_1_to_2 * power_of_two(lowest + static_cast<int>(choice));
    return random & 1 ? -magnitude : magnitude;
  }

  /// For prod: the value of all further slots, 1 or -1.
  double sign_filler(std::size_t position) const { return draw(position, kSignLane) & 1 ? -1 : 1; }

  /// For max and min: any normal number.
  T extreme(int slot, std::size_t position) const {
    return extreme_in_slot(op_, slot, slots_.count(), [position](int i) {
      return normal_value<T>(draw(position, static_cast<std::uint32_t>(i)));
    });
  }

  /// For avg, if 1/ranks is rounded: one or two ranks hold the same number.
  double averaged(int slot, std::size_t position) const {
    const std::uint64_t random = draw(position, 0);
    const ExactAverage& chosen = exact_averages_.numbers[below(random, exact_averages_.numbers.size())];
    // With more ranks than elements in a tile, both slots are needed to give each rank a value.
    const bool both = chosen.twice && (slots_.step() > 1 || (random & 2) != 0);
    if (slot == 1 && !both) return 0;
    // The sign of an average that rounds to zero depends on the way it is computed.
    const bool negative = (random & 1) != 0 && exact_averages_.range != AveragePrecision::zero;
    return negative ? -chosen.value : chosen.value;
  }

  Redop op_;
  bool rounds_;
  ContributionSlots slots_;
  ExactAverages exact_averages_{{}, AveragePrecision::normal};
};

}  // namespace busbw
