#pragma once
// Unsigned integers that stand for elements which are only moved.
#include <cstdint>

#include "common/values/types.hpp"

namespace busbw {

/// Calls f with a zero of the unsigned integer type that has the size of `dtype`'s elements.
template <class F>
void with_word(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::int8:
    case Dtype::uint8:
    case Dtype::f8e4m3:
    case Dtype::f8e5m2: return f(std::uint8_t{});
    case Dtype::float16:
    case Dtype::bfloat16: return f(std::uint16_t{});
    case Dtype::int32:
    case Dtype::uint32:
    case Dtype::float32: return f(std::uint32_t{});
    case Dtype::int64:
    case Dtype::uint64:
    case Dtype::float64: return f(std::uint64_t{});
  }
}

}  // namespace busbw
