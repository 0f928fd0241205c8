#pragma once
// Assigns ranks to contribution slots, rotated per element, so that every rank affects some element of a tile.
#include <algorithm>
#include <cstddef>

#include "verify/data_stream.hpp"

namespace busbw {

/// One-to-one assignment of slots to ranks at each `position` of a tile. Slots 0 .. count-1 hold values drawn for the
/// element. The operator determines the values of further slots.
class ContributionSlots {
 public:
  /// `max_values` is the number of values per element; with fewer ranks there are fewer.
  ContributionSlots(int ranks, int max_values)
      : ranks_(ranks), count_(std::min(ranks, max_values)), step_((ranks - 1) / static_cast<int>(kTileElements) + 1) {}

  int ranks() const { return ranks_; }
  int count() const { return count_; }
  /// Slots that the rotation advances per element. If count() >= step(), every rank holds a drawn value somewhere in a
  /// tile. step() is 1 for up to kTileElements ranks and 4 for 65,536.
  int step() const { return step_; }

  int rotation(std::size_t position) const {
    return static_cast<int>(position * static_cast<std::size_t>(step_) % static_cast<std::size_t>(ranks_));
  }
  int slot_of(int rank, std::size_t position) const {
    const int slot = rank + rotation(position);
    return slot < ranks_ ? slot : slot - ranks_;
  }
  int rank_of(int slot, std::size_t position) const {
    const int rank = slot - rotation(position);
    return rank < 0 ? rank + ranks_ : rank;
  }

 private:
  int ranks_;
  int count_;
  int step_;
};

}  // namespace busbw
