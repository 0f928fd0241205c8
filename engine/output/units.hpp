#pragma once
// What a reader is given instead of seconds and bytes per second.

namespace busbw {

inline constexpr double kUs = 1e6;          // microseconds in a second
inline constexpr double kBytesPerGb = 1e9;  // GB/s are decimal

}  // namespace busbw
