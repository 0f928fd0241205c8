#pragma once
// TIME IS READ HERE: the engine reads the host clock only through these functions.
#include <cstdint>
#include <functional>
#include <string>

namespace busbw {

/// Seconds of a monotonic clock. Only differences are meaningful.
double monotonic_s();

/// Nanoseconds of Unix time.
std::uint64_t unix_time_ns();

/// Returns when monotonic_s() reaches `time_s`. Sleeps for most of the time, then polls. Calls `check`, which may
/// throw, at least ten times per second.
void wait_until_s(double time_s, const std::function<void()>& check);

/// Time of day in the formats of tables, records and file names.
struct WallTime {
  std::string local;    // "2026-11-21 08:16:39", as nccl-tests prints it
  std::string iso;      // "2026-11-21T08:16:39.123+00:00", local time with its offset from UTC
  std::string compact;  // "20261121T081639Z", UTC
};
WallTime wall_time();

}  // namespace busbw
