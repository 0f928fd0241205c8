#pragma once
// Integer inputs and results of reductions. Sums and products are taken modulo 2^bits, so any order gives the same
// result. A few ranks contribute random ("drawn") values to an element, the others fillers (contribution_slots.hpp).
// docs/explanation/correctness.md has the proofs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/core.h>

#include "common/values/types.hpp"
#include "verify/contribution_slots.hpp"
#include "verify/extremes.hpp"
#include "verify/random.hpp"

namespace busbw {

/// Computes single elements of one reduction over integers of type T.
template <class T>
class IntegerReduction {
 public:
  IntegerReduction(Redop op, int ranks) : op_(op), slots_(ranks, kMaxDrawn) {}

  /// Input of `rank` at `position` of the tile.
  T contribution(int rank, std::size_t position) const {
    const int slot = slots_.slot_of(rank, position);
    const bool is_drawn = slot < slots_.drawn_count();
    if (op_ == Redop::max || op_ == Redop::min) return extreme_value(slot, position);
    if (op_ == Redop::avg) return static_cast<T>(is_drawn ? average_share(slot, position) : 0);
    if (!is_drawn) return static_cast<T>(filler(slot, position));
    return static_cast<T>(op_ == Redop::prod ? drawn_factor(slot, position) : drawn_value(slot, position));
  }

  /// Result of the reduction at `position` of the tile.
  T reduced(std::size_t position) const {
    const int drawn_count = slots_.drawn_count();
    const int ranks = slots_.ranks();
    if (op_ == Redop::max || op_ == Redop::min) return extreme_value(0, position);
    if (op_ == Redop::avg) return static_cast<T>(input_sum(position) / static_cast<std::uint64_t>(ranks));
    if (op_ == Redop::prod) {
      // Pairs of fillers cancel, so only an odd number of them leaves a factor: the first filler.
      std::uint64_t product = (ranks - drawn_count) % 2 == 0 ? 1 : filler(drawn_count, position);
      for (int slot = 0; slot < drawn_count; ++slot) product *= drawn_factor(slot, position);
      return static_cast<T>(product);
    }
    std::uint64_t sum = 0;  // mulsum doubles the data of odd ranks
    for (int slot = 0; slot < drawn_count; ++slot) {
      const std::uint64_t value = drawn_value(slot, position);
      const bool is_doubled = op_ == Redop::mulsum && slots_.rank_of(slot, position) % 2 == 1;
      sum += is_doubled ? 2 * value : value;
    }
    return static_cast<T>(sum + filler_sum(position));
  }

  /// "exact", or a statement of the errors that the data cannot show.
  std::string exactness() const {
    const bool are_averages_zero = op_ == Redop::avg && static_cast<std::uint64_t>(slots_.ranks()) > kMax;
    if (!are_averages_zero) return "exact";
    return fmt::format("exact, but each average is 0: the inputs must not sum to more than {} over {} ranks", kMax,
                       slots_.ranks());
  }

 private:
  static constexpr int kMaxDrawn = 8;
  // Lane (random.hpp) of an element's input sum. Drawn values use the number of their slot as lane.
  static constexpr std::uint32_t kInputSumLane = 16;
  /// Largest value of the type.
  static constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<T>::max());

  std::uint64_t drawn_value(int slot, std::size_t position) const {
    return random_bits(position, static_cast<std::uint32_t>(slot));
  }

  /// For prod: an odd number, so that a change of another factor changes the product.
  std::uint64_t drawn_factor(int slot, std::size_t position) const { return drawn_value(slot, position) | 1; }

  T extreme_value(int slot, std::size_t position) const {
    return extreme_in_slot(op_, slot, slots_.drawn_count(),
                           [&](int i) { return static_cast<T>(drawn_value(i, position)); });
  }

  /// For averages: the sum of all inputs, at most kMax. The quotient of the sum and the ranks is rounded down. If the
  /// sum is a multiple of the ranks, any loss changes the quotient. If it is one below a multiple, any excess does.
  std::uint64_t input_sum(std::size_t position) const {
    const auto ranks = static_cast<std::uint64_t>(slots_.ranks());
    if (ranks > kMax) return kMax;  // each average is then 0 (`exactness`)
    const std::uint64_t random = random_bits(position, kInputSumLane);
    const std::uint64_t multiple = (1 + (random >> 1) % (kMax / ranks)) * ranks;
    return random & 1 ? multiple : multiple - 1;
  }

  /// For averages: the share of the input sum that a slot with a drawn value holds. Slots 0 and 1 hold the even share
  /// plus and minus a random shift, likewise slots 2 and 3, and so on. The last slot also holds the remainder.
  std::uint64_t average_share(int slot, std::size_t position) const {
    const auto drawn_count = static_cast<std::uint64_t>(slots_.drawn_count());
    const std::uint64_t sum = input_sum(position);
    const std::uint64_t even_share = sum / drawn_count;
    const bool is_last = slot + 1 == slots_.drawn_count();
    const std::uint64_t remainder = is_last ? sum % drawn_count : 0;
    const bool has_partner = slot % 2 == 1 || !is_last;
    if (even_share == 0 || !has_partner) return even_share + remainder;
    const std::uint64_t shift = drawn_value(slot / 2, position) % even_share;
    return (slot % 2 == 0 ? even_share + shift : even_share - shift) + remainder;
  }

  /// Slots from drawn_count() on hold pairs of fillers that cancel: a number and its negative (sum) or inverse (prod).
  /// Losing, doubling or replacing any one of them changes the result.
  std::uint64_t filler(int slot, std::size_t position) const {
    // A random number of no drawn slot. The two low bits are set: it is odd, so it has an inverse, and it is not 1.
    std::uint64_t value = drawn_value(slots_.drawn_count(), position) | 3;
    if ((slot - slots_.drawn_count()) % 2 == 0) return value;
    if (op_ != Redop::prod) return 0 - value;
    // Newton's iteration for the inverse modulo 2^64. An odd number is its own inverse modulo 8, which makes 3 bits
    // correct. Each step doubles the number of correct bits.
    std::uint64_t inverse = value;
    for (int correct_bits = 3; correct_bits < 64; correct_bits *= 2) inverse *= 2 - value * inverse;
    return inverse;
  }

  /// For sum and mulsum: the sum of all fillers, each multiplied by its rank's scalar. Fillers are alternately the
  /// first filler and its negative, so the sum is a multiple of the first filler.
  std::uint64_t filler_sum(std::size_t position) const {
    const int first_slot = slots_.drawn_count();
    const int ranks = slots_.ranks();
    if (first_slot == ranks) return 0;
    // With scalars of 1, pairs cancel. An odd number of fillers leaves the first one.
    std::uint64_t factor = static_cast<std::uint64_t>((ranks - first_slot) % 2);
    if (op_ == Redop::mulsum) {
      // The scalar is 1 for even and 2 for odd ranks, so fillers of odd ranks count once more. Slots below the rotation
      // belong to rank slot - rotation + ranks, the other slots to rank slot - rotation. Only the parity matters, so
      // the shifts below have +rotation instead of -rotation.
      const int rotation = slots_.rotation(position);
      const int first_unwrapped = std::max(first_slot, rotation);
      factor += odd_rank_factor(first_slot, first_unwrapped, rotation + ranks) +
                odd_rank_factor(first_unwrapped, ranks, rotation);
    }
    return factor * filler(first_slot, position);
  }

  /// Sum of the odd ranks' fillers in slots begin .. end-1, as a multiple of the first filler. A slot belongs to an odd
  /// rank if slot + shift is odd. Every second slot does, so the fillers of odd ranks have the same sign.
  std::uint64_t odd_rank_factor(int begin, int end, int shift) const {
    const int first_odd = begin + ((begin + shift) % 2 == 0 ? 1 : 0);
    if (first_odd >= end) return 0;
    const auto odd_count = static_cast<std::uint64_t>((end - first_odd + 1) / 2);
    const bool is_positive = (first_odd - slots_.drawn_count()) % 2 == 0;
    return is_positive ? odd_count : 0 - odd_count;
  }

  Redop op_;
  ContributionSlots slots_;
};

}  // namespace busbw
