#pragma once
// Who contributes what to an element: ranks take turns in the slots, so that each of them matters somewhere in a tile.
#include <algorithm>
#include <cstddef>

#include "verify/data_stream.hpp"

namespace busbw {

/// At element `position` of a tile each rank holds one slot and each slot has one rank. Slots 0 .. count-1 hold values
/// drawn for the element; what further slots hold follows from the operator.
class ContributionSlots {
 public:
  /// `wanted`: values per element; fewer where there are fewer ranks.
  ContributionSlots(int ranks, int wanted)
      : ranks_(ranks), count_(std::min(ranks, wanted)), step_((ranks - 1) / static_cast<int>(kTileElements) + 1) {}

  int ranks() const { return ranks_; }
  int count() const { return count_; }
  /// Slots that the turn advances per element. With count() >= step() every rank holds a drawn value somewhere in a
  /// tile; step() is 1 up to kTileElements ranks, and 4 at 65,536.
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
