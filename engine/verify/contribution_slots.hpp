#pragma once
// Decides which rank contributes which input to a reduction. At each position of a tile (verify/data_stream.hpp), every
// rank holds one of the slots 0 .. ranks-1. The slot determines the value that the rank contributes. The assignment
// rotates from element to element, so that every rank affects some element of a tile.
#include <algorithm>
#include <cstddef>

#include "verify/data_stream.hpp"

namespace busbw {

/// One-to-one assignment of slots to ranks at each `position` of a tile. Slots 0 .. drawn_count()-1 hold random values,
/// drawn for the element. The operator determines the values of the other slots, such as 0 for a sum of floats.
class ContributionSlots {
 public:
  /// `max_drawn`: maximum number of drawn values per element. With fewer ranks, each rank has one.
  ContributionSlots(int ranks, int max_drawn)
      : ranks_(ranks),
        drawn_count_(std::min(ranks, max_drawn)),
        step_((ranks - 1) / static_cast<int>(kTileElements) + 1) {}

  int ranks() const { return ranks_; }
  int drawn_count() const { return drawn_count_; }
  /// Number of slots by which the rotation advances from one position to the next: 1 for up to kTileElements ranks, 4
  /// for 65,536. If drawn_count() >= step(), every rank has a drawn value at some position of a tile.
  int step() const { return step_; }

  /// Slot of rank 0 at this position.
  int rotation(std::size_t position) const {
    return static_cast<int>(position * static_cast<std::size_t>(step_) % static_cast<std::size_t>(ranks_));
  }
  /// Slot of `rank` at this position.
  int slot_of(int rank, std::size_t position) const {
    const int slot = rank + rotation(position);
    return slot < ranks_ ? slot : slot - ranks_;
  }
  /// Rank that holds `slot` at this position.
  int rank_of(int slot, std::size_t position) const {
    const int rank = slot - rotation(position);
    return rank < 0 ? rank + ranks_ : rank;
  }

 private:
  int ranks_;
  int drawn_count_;
  int step_;
};

}  // namespace busbw
