#pragma once
// Dispatches from a Dtype, known at run time, to the C++ type of its elements.
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/values/types.hpp"
#include "values/float_formats.hpp"

namespace busbw {

/// Calls f.template operator()<T>() with the C++ type of `dtype`'s elements and returns its result:
/// `with_element_type(dtype, [&]<class T>() { ... })`.
template <class F>
decltype(auto) with_element_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::int8: return f.template operator()<std::int8_t>();
    case Dtype::uint8: return f.template operator()<std::uint8_t>();
    case Dtype::int32: return f.template operator()<std::int32_t>();
    case Dtype::uint32: return f.template operator()<std::uint32_t>();
    case Dtype::int64: return f.template operator()<std::int64_t>();
    case Dtype::uint64: return f.template operator()<std::uint64_t>();
    case Dtype::float16: return f.template operator()<Float16>();
    case Dtype::float32: return f.template operator()<float>();
    case Dtype::float64: return f.template operator()<double>();
    case Dtype::bfloat16: return f.template operator()<Bfloat16>();
    case Dtype::f8e4m3: return f.template operator()<F8e4m3>();
    case Dtype::f8e5m2: return f.template operator()<F8e5m2>();
  }
  throw std::logic_error("with_element_type: not a Dtype");
}

}  // namespace busbw
