#pragma once
// Integer data for reductions. Sums and products are taken modulo 2^bits, so any order gives the same result.
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

/// Elements of one reduction over integers of type T (docs/checking.md).
template <class T>
class IntegerReduction {
 public:
  IntegerReduction(Redop op, int ranks) : op_(op), slots_(ranks, 8) {}

  /// Input of `rank` at `position` of the tile.
  T contribution(int rank, std::size_t position) const {
    const int slot = slots_.slot_of(rank, position);
    const int count = slots_.count();
    switch (op_) {
      case Redop::max:
      case Redop::min: return extreme(slot, position);
      case Redop::avg: return static_cast<T>(slot < count ? share(slot, position) : 0);
      case Redop::prod: return static_cast<T>(slot < count ? drawn(slot, position) | 1 : filler(slot, position));
      case Redop::sum:
      case Redop::mulsum: break;
    }
    return static_cast<T>(slot < count ? drawn(slot, position) : filler(slot, position));
  }

  /// Result of the reduction at `position` of the tile.
  T reduced(std::size_t position) const {
    const int count = slots_.count();
    const int ranks = slots_.ranks();
    if (op_ == Redop::max || op_ == Redop::min) return extreme(0, position);
    if (op_ == Redop::avg) return static_cast<T>(total(position) / static_cast<std::uint64_t>(ranks));
    if (op_ == Redop::prod) {
      std::uint64_t product = (ranks - count) % 2 == 0 ? 1 : filler(count, position);
      for (int slot = 0; slot < count; ++slot) product *= drawn(slot, position) | 1;
      return static_cast<T>(product);
    }
    std::uint64_t sum = 0;
    for (int slot = 0; slot < count; ++slot) {
      const std::uint64_t value = drawn(slot, position);
      const bool doubled = op_ == Redop::mulsum && slots_.rank_of(slot, position) % 2 == 1;
      sum += doubled ? 2 * value : value;
    }
    return static_cast<T>(sum + filler_sum(position));
  }

  /// "exact", or a statement of what the data cannot show.
  std::string policy() const {
    if (op_ != Redop::avg || static_cast<std::uint64_t>(slots_.ranks()) <= kMax) return "exact";
    return fmt::format("exact, but each average is 0: the inputs must not sum to more than {} over {} ranks", kMax,
                       slots_.ranks());
  }

 private:
  static constexpr std::uint32_t kTotalLane = 16;  // slots use 0 .. 15
  static constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<T>::max());

  std::uint64_t drawn(int slot, std::size_t position) const { return draw(position, static_cast<std::uint32_t>(slot)); }

  T extreme(int slot, std::size_t position) const {
    return extreme_in_slot(op_, slot, slots_.count(), [&](int i) { return static_cast<T>(drawn(i, position)); });
  }

  /// For averages: the sum of all inputs, at most kMax. A multiple of the number of ranks shows any loss in the
  /// quotient. One below a multiple shows any excess.
  std::uint64_t total(std::size_t position) const {
    const auto ranks = static_cast<std::uint64_t>(slots_.ranks());
    if (ranks > kMax) return kMax;
    const std::uint64_t random = draw(position, kTotalLane);
    const std::uint64_t multiple = (1 + (random >> 1) % (kMax / ranks)) * ranks;
    return random & 1 ? multiple : multiple - 1;
  }

  /// For averages: the part of the total in a slot. Two neighboring slots together hold twice the mean. The last slot
  /// also holds the remainder.
  std::uint64_t share(int slot, std::size_t position) const {
    const auto count = static_cast<std::uint64_t>(slots_.count());
    const std::uint64_t sum = total(position);
    const std::uint64_t mean = sum / count;
    const bool last = slot + 1 == slots_.count();
    const std::uint64_t rest = last ? sum - mean * count : 0;
    if (mean == 0 || (last && slot % 2 == 0)) return mean + rest;
    const std::uint64_t shift = drawn(slot / 2, position) % mean;
    return (slot % 2 == 0 ? mean + shift : mean - shift) + rest;
  }

  /// Slots from count() on hold pairs that cancel: a number and its negative or inverse. Losing, doubling or replacing
  /// any one of them changes the result.
  std::uint64_t filler(int slot, std::size_t position) const {
    std::uint64_t value = drawn(slots_.count(), position) | 3;
    if ((slot - slots_.count()) % 2 == 0) return value;
    if (op_ != Redop::prod) return 0 - value;
    // Newton's iteration for the inverse modulo 2^64. An odd number is its own inverse modulo 8; each step doubles the
    // right bits.
    std::uint64_t inverse = value;
    for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - value * inverse;
    return inverse;
  }

  /// Sum of all fillers, each multiplied by its rank's scalar.
  std::uint64_t filler_sum(std::size_t position) const {
    const int first = slots_.count();
    const int ranks = slots_.ranks();
    if (first == ranks) return 0;
    std::uint64_t factor = static_cast<std::uint64_t>((ranks - first) % 2);
    if (op_ == Redop::mulsum) {
      // The scalar is 1 plus the rank's parity. The rank is slot - rotation, plus `ranks` for slots below the rotation.
      const int rotation = slots_.rotation(position);
      const int wrap = std::max(first, rotation);
      factor += odd_rank_factor(first, wrap, rotation + ranks) + odd_rank_factor(wrap, ranks, rotation);
    }
    return factor * filler(first, position);
  }

  /// Sum of the odd ranks' fillers in slots begin .. end-1, as a multiple of the first filler. The rank of a slot has
  /// the parity of slot + shift. Only every second slot counts, so all of them have one sign.
  std::uint64_t odd_rank_factor(int begin, int end, int shift) const {
    const int first_odd = begin + ((begin + shift) % 2 == 0 ? 1 : 0);
    if (first_odd >= end) return 0;
    const auto slots = static_cast<std::uint64_t>((end - first_odd + 1) / 2);
    return (first_odd - slots_.count()) % 2 == 0 ? slots : 0 - slots;
  }

  Redop op_;
  ContributionSlots slots_;
};

}  // namespace busbw
