#pragma once
// TIME IS READ HERE, and nowhere else.
#include <string>

namespace busbw {

/// Seconds on a clock that never steps; only differences mean something.
double monotonic_s();

/// The time of day, as people and files write it.
struct WallTime {
  std::string local;    // "2026-11-21 08:16:39", as nccl-tests prints it
  std::string iso;      // "2026-11-21T08:16:39.123+00:00"
  std::string compact;  // "20261121T081639Z", UTC
};
WallTime wall_time();

}  // namespace busbw
