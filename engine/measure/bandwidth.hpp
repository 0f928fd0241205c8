#pragma once
// BYTES BECOME BUSBW HERE: the engine's only division of bytes by seconds.
#include "collectives/collective.hpp"

namespace busbw {

/// Bandwidths in bytes per second. nccl-tests' GB/s are 1e9 bytes per second.
struct Bandwidth {
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
};

/// Bandwidths of one operation that moves `traffic` in `time_s` (docs/explanation/measuring.md derives each
/// collective's traffic).
inline Bandwidth bandwidth(const Traffic& traffic, double time_s) {
  const double algbw = traffic.algbw_bytes / time_s;
  return {algbw, algbw * traffic.bus_factor};
}

}  // namespace busbw
