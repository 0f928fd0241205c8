#pragma once
// Data of the operators max and min: one rank holds the extreme value, so that losing this rank changes the result.
#include "common/values/types.hpp"
#include "values/float_formats.hpp"

namespace busbw {

/// Value of `slot` (contribution_slots.hpp) if the drawn values are drawn_value(0) .. drawn_value(drawn_count - 1).
/// Slot 0 holds the extreme: the largest for Redop::max, the smallest for Redop::min. Slots 1 .. drawn_count-1 hold the
/// other drawn values. Further slots repeat slots 1 .. drawn_count-1.
template <class DrawnValue>
auto extreme_in_slot(Redop op, int slot, int drawn_count, const DrawnValue& drawn_value) {
  const auto is_beyond = [op](auto a, auto b) {
    if constexpr (kIsFloat<decltype(a)>) {
      return op == Redop::max ? to_double(a) > to_double(b) : to_double(a) < to_double(b);
    } else {
      return op == Redop::max ? a > b : a < b;
    }
  };
  int extreme_index = 0;
  for (int i = 1; i < drawn_count; ++i) {
    if (is_beyond(drawn_value(i), drawn_value(extreme_index))) extreme_index = i;
  }
  if (slot == 0) return drawn_value(extreme_index);
  // drawn_count is at least 2 here: with one drawn value, slot 0 is the only slot.
  const int index = slot < drawn_count ? slot : 1 + (slot - drawn_count) % (drawn_count - 1);
  // Slot i holds value i, except that slots 0 and `extreme_index` have exchanged their values.
  return drawn_value(index == extreme_index ? 0 : index);
}

}  // namespace busbw
