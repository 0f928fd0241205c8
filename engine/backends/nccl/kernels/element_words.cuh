#pragma once
// Selects an unsigned integer type for kernels that move elements without computing. Types of one size share a kernel.
#include <cstdint>

#include "common/values/types.hpp"

namespace busbw {

/// Calls launch(word) with a zero of the unsigned integer type that has the size of `dtype`'s elements.
template <class Launch>
void with_word(Dtype dtype, const Launch& launch) {
  switch (dtype) {
    case Dtype::int8:
    case Dtype::uint8:
    case Dtype::f8e4m3:
    case Dtype::f8e5m2: return launch(std::uint8_t{});
    case Dtype::float16:
    case Dtype::bfloat16: return launch(std::uint16_t{});
    case Dtype::int32:
    case Dtype::uint32:
    case Dtype::float32: return launch(std::uint32_t{});
    case Dtype::int64:
    case Dtype::uint64:
    case Dtype::float64: return launch(std::uint64_t{});
  }
}

}  // namespace busbw
