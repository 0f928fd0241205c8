#pragma once
// Element types, reduction operators and placements, with their names in flags and output.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace busbw {

/// Element types in nccl-tests' order.
enum class Dtype { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, f8e4m3, f8e5m2 };
/// Reduction operators in nccl-tests' order. `mulsum` multiplies each rank's data by that rank's scalar, then sums.
enum class Redop { sum, prod, max, min, avg, mulsum };
/// In place, the send data lies in the receive buffer.
enum class Placement { out_of_place, in_place };

/// All element types and all operators, in the order of their enums.
inline constexpr std::array kDtypes{Dtype::int8,    Dtype::uint8,    Dtype::int32,   Dtype::uint32,
                                    Dtype::int64,   Dtype::uint64,   Dtype::float16, Dtype::float32,
                                    Dtype::float64, Dtype::bfloat16, Dtype::f8e4m3,  Dtype::f8e5m2};
inline constexpr std::array kRedops{Redop::sum, Redop::prod, Redop::max, Redop::min, Redop::avg, Redop::mulsum};

/// Returns the name in nccl-tests: "int8", "half", "float", "double", "bfloat16", "f8e4m3", ...
std::string_view name(Dtype);
/// Returns the name in nccl-tests: "sum", "prod", "max", "min", "avg" or "mulsum".
std::string_view name(Redop);
/// Returns "out_of_place" or "in_place".
std::string_view name(Placement);

/// The reverse of `name`. Nothing if the name is unknown.
std::optional<Dtype> dtype_of(std::string_view name);
std::optional<Redop> redop_of(std::string_view name);

/// Returns the size of one element in bytes: 1, 2, 4 or 8.
std::size_t size_bytes(Dtype);

}  // namespace busbw
