#pragma once
// Data of max and min: one rank holds the extreme value, so that losing this rank changes the result.
#include "common/values/types.hpp"
#include "values/float_formats.hpp"

namespace busbw {

/// Value of `slot` if the drawn values are value(0) .. value(count - 1). Slot 0 holds the extreme (the largest for
/// Redop::max, the smallest for Redop::min). The next slots hold the others, and further slots repeat those.
template <class Value>
auto extreme_in_slot(Redop op, int slot, int count, const Value& value) {
  const auto is_beyond = [op](auto a, auto b) {
    if constexpr (kIsFloat<decltype(a)>) {
      return op == Redop::max ? to_double(a) > to_double(b) : to_double(a) < to_double(b);
    } else {
      return op == Redop::max ? a > b : a < b;
    }
  };
  int extreme = 0;
  for (int i = 1; i < count; ++i) {
    if (is_beyond(value(i), value(extreme))) extreme = i;
  }
  if (slot == 0) return value(extreme);
  const int other = slot < count ? slot : 1 + (slot - count) % (count - 1);
  return value(other == extreme ? 0 : other);
}

}  // namespace busbw
