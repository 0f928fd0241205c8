#pragma once
// Floating-point inputs and results of reductions. The inputs are such that no partial result is rounded. So the result
// has the same bits in any order of reduction, in the type or in a wider accumulator. A few ranks contribute
// random ("drawn") values to an element, the others a filler (contribution_slots.hpp). docs/explanation/correctness.md
// has the proofs.
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

/// Computes single elements of one reduction over floating-point numbers of type T.
template <class T>
class FloatReduction {
 public:
  FloatReduction(Redop op, int ranks)
      : op_(op),
        is_average_rounded_(op == Redop::avg && !has_exact_inverse(ranks)),
        slots_(ranks, max_drawn_count(op, is_average_rounded_)) {
    if (is_average_rounded_) exact_averages_ = find_exact_averages<T>(ranks);
  }

  /// Input of `rank` at `position` of the tile.
  T contribution(int rank, std::size_t position) const {
    const int slot = slots_.slot_of(rank, position);
    const bool is_drawn = slot < slots_.drawn_count();
    if (op_ == Redop::max || op_ == Redop::min) return extreme_value(slot, position);
    if (op_ == Redop::prod) return round_to<T>(is_drawn ? drawn_factor(slot, position) : sign_filler(position));
    if (!is_drawn) return T{};
    if (is_average_rounded_) return round_to<T>(drawn_average_input(slot, position));
    return round_to<T>(static_cast<double>(drawn_integer(slot, position)) * power_of_two(scale_exponent(position)));
  }

  /// Result of the reduction at `position` of the tile.
  T reduced(std::size_t position) const {
    const int drawn_count = slots_.drawn_count();
    if (op_ == Redop::max || op_ == Redop::min) return extreme_value(0, position);
    if (op_ == Redop::prod) {
      // The fillers are all 1 or all -1, so only an odd number of them has an effect.
      double product = (slots_.ranks() - drawn_count) % 2 == 0 ? 1 : sign_filler(position);
      for (int slot = 0; slot < drawn_count; ++slot) product *= drawn_factor(slot, position);
      return round_to<T>(product);
    }
    if (is_average_rounded_) {
      double sum = 0;
      for (int slot = 0; slot < drawn_count; ++slot) sum += drawn_average_input(slot, position);
      return round_to<T>(sum / slots_.ranks());
    }
    std::int64_t sum = 0;  // mulsum doubles the data of odd ranks
    for (int slot = 0; slot < drawn_count; ++slot) {
      const bool is_doubled = op_ == Redop::mulsum && slots_.rank_of(slot, position) % 2 == 1;
      sum += is_doubled ? 2 * drawn_integer(slot, position) : drawn_integer(slot, position);
    }
    const double divisor = op_ == Redop::avg ? slots_.ranks() : 1;
    return round_to<T>(static_cast<double>(sum) * power_of_two(scale_exponent(position)) / divisor);
  }

  /// "exact", or a statement of the errors that the data cannot show.
  std::string exactness() const {
    const bool are_averages_zero = is_average_rounded_ && exact_averages_.precision == AveragePrecision::zero;
    if (!are_averages_zero) return "exact";
    return fmt::format("exact, but each average is 0: 1/{} rounds to 0 in this type", slots_.ranks());
  }

 private:
  static constexpr FloatLimits kLimit = kLimits<T>;
  // Lanes (random.hpp) of an element's random numbers. Drawn values use the number of their slot, which is below 16.
  static constexpr std::uint32_t kScaleLane = 16;
  static constexpr std::uint32_t kOrderLane = 17;
  static constexpr std::uint32_t kSignLane = 18;
  static constexpr std::uint32_t kBitsLane = 32;

  /// True if 1/ranks is a number of the type: a power of two that is not too small. Averages are then never rounded.
  static bool has_exact_inverse(int ranks) {
    const auto divisor = static_cast<unsigned>(ranks);
    return std::has_single_bit(divisor) && -std::countr_zero(divisor) >= kLimit.smallest_exponent();
  }

  /// Maximum number of drawn values per element. A type with few bits gets fewer, because their sum or product must be
  /// exact.
  static int max_drawn_count(Redop op, bool is_average_rounded) {
    if (is_average_rounded) return 2;  // see drawn_average_input
    if (op == Redop::max || op == Redop::min) return 8;
    const bool has_few_bits = kLimit.significand_bits < 8;
    return op == Redop::prod || has_few_bits ? 4 : 8;
  }

  /// For sum, mulsum and avg: a nonzero integer. The magnitudes of an element's integers, times the scalars of mulsum,
  /// sum to at most 2^significand_bits. Example: half has 11 bits, so each of 8 magnitudes is from 1 to 256.
  std::int64_t drawn_integer(int slot, std::size_t position) const {
    const int max_scalar = op_ == Redop::mulsum ? 2 : 1;
    const std::uint64_t bound =
        (std::uint64_t{1} << kLimit.significand_bits) / static_cast<std::uint64_t>(slots_.drawn_count() * max_scalar);
    const std::uint64_t random = random_bits(position, static_cast<std::uint32_t>(slot));
    const auto magnitude = static_cast<std::int64_t>(1 + (random >> 1) % bound);
    return random & 1 ? -magnitude : magnitude;
  }

  /// For sum, mulsum and avg: exponent of the power of two that multiplies an element's integers. The smallest product
  /// is normal even after division by the ranks, and the sum is finite. For avg, the ranks are a power of two.
  int scale_exponent(std::size_t position) const {
    const int divisor_exponent = op_ == Redop::avg ? std::countr_zero(static_cast<unsigned>(slots_.ranks())) : 0;
    const int min_exponent = kLimit.min_exponent + divisor_exponent;
    const int max_exponent = kLimit.max_exponent - kLimit.significand_bits;
    const auto exponent_count = static_cast<std::uint64_t>(max_exponent - min_exponent + 1);
    return min_exponent + static_cast<int>(map_below(random_bits(position, kScaleLane), exponent_count));
  }

  /// For prod: an integer times a power of two. The product of an element's integers is below 2^significand_bits, so it
  /// is exact. The powers of two are such that every partial product of the factors is a normal number.
  double drawn_factor(int slot, std::size_t position) const {
    const int drawn_count = slots_.drawn_count();
    const int bits = factor_bits(slot, position);
    const std::uint64_t random = random_bits(position, static_cast<std::uint32_t>(slot));
    const std::uint64_t significand = bits == 0 ? 1 : 1 + (random >> 1) % ((std::uint64_t{1} << bits) - 1);
    const int min_exponent = kLimit.min_exponent / drawn_count;
    const int max_exponent = kLimit.max_exponent / drawn_count - 1;
    const auto exponent_count = static_cast<std::uint64_t>(max_exponent - min_exponent + 1);
    const std::uint64_t exponent_offset = map_below(mix_bits(random), exponent_count);
    const double from_1_to_2 = static_cast<double>(significand) / static_cast<double>(std::bit_floor(significand));
    const double magnitude = from_1_to_2 * power_of_two(min_exponent + static_cast<int>(exponent_offset));
    return random & 1 ? -magnitude : magnitude;
  }

  /// For prod: number of significand bits of the factor in `slot`. Beginning with a random slot, each slot takes a
  /// random number of the type's remaining bits, and the last slot takes the rest.
  int factor_bits(int slot, std::size_t position) const {
    const int drawn_count = slots_.drawn_count();
    const int start_slot =
        static_cast<int>(map_below(random_bits(position, kOrderLane), static_cast<std::uint64_t>(drawn_count)));
    int remaining_bits = kLimit.significand_bits;
    for (int index = 0; index < drawn_count - 1; ++index) {
      const std::uint64_t random = random_bits(position, kBitsLane + static_cast<std::uint32_t>(index));
      const int bits = static_cast<int>(map_below(random, static_cast<std::uint64_t>(remaining_bits + 1)));
      if ((start_slot + index) % drawn_count == slot) return bits;
      remaining_bits -= bits;
    }
    return remaining_bits;
  }

  /// For prod: the value of all slots without a drawn value, 1 or -1.
  double sign_filler(std::size_t position) const { return random_bits(position, kSignLane) & 1 ? -1 : 1; }

  /// For max and min: any normal number, from the slots' drawn values.
  T extreme_value(int slot, std::size_t position) const {
    return extreme_in_slot(op_, slot, slots_.drawn_count(), [position](int i) {
      return normal_value<T>(random_bits(position, static_cast<std::uint32_t>(i)));
    });
  }

  /// For avg, if the average is rounded: a number with a unique average, held by slot 0 or by slots 0 and 1.
  double drawn_average_input(int slot, std::size_t position) const {
    const std::uint64_t random = random_bits(position, 0);
    const ExactAverage& number = exact_averages_.numbers[map_below(random, exact_averages_.numbers.size())];
    // With more ranks than elements in a tile (step > 1), one slot would leave some ranks without a number.
    const bool uses_both_slots = number.allows_two_ranks && (slots_.step() > 1 || (random & 2) != 0);
    if (slot == 1 && !uses_both_slots) return 0;
    // A negative average that rounds to zero becomes +0 or -0, depending on the library. So such a number is positive.
    const bool is_negative = (random & 1) != 0 && exact_averages_.precision != AveragePrecision::zero;
    return is_negative ? -number.value : number.value;
  }

  Redop op_;
  bool is_average_rounded_;
  ContributionSlots slots_;
  ExactAverages exact_averages_{{}, AveragePrecision::normal};
};

}  // namespace busbw
