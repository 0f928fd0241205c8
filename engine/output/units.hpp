#pragma once
// Factors from seconds and bytes per second to the units in outputs.

namespace busbw {

inline constexpr double kUs = 1e6;  // microseconds per second
inline constexpr double kBytesPerGb = 1e9;  // GB/s are decimal

}  // namespace busbw
