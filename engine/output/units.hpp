#pragma once
// Factors between the units inside the engine (seconds, bytes per second) and those of its outputs.
#include <optional>

namespace busbw {

/// Factors by which a value of the engine is multiplied (seconds) or divided (bytes per second).
inline constexpr double kUsPerS = 1e6;  // microseconds per second
inline constexpr double kBytesPerGb = 1e9;  // GB/s are decimal

/// Returns the value times the factor, or nothing without a value.
inline std::optional<double> scaled(const std::optional<double>& value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

}  // namespace busbw
