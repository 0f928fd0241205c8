#pragma once
// Factors between the units inside the engine (seconds, bytes per second) and those of its outputs.
#include <optional>

namespace busbw {

/// Seconds times this factor are microseconds.
inline constexpr double kUsPerS = 1e6;
/// Bytes per second divided by this factor are GB/s, which are decimal.
inline constexpr double kBytesPerGb = 1e9;

/// Returns the value times the factor, or nothing without a value.
inline std::optional<double> scaled(const std::optional<double>& value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

}  // namespace busbw
