#pragma once
// Outcome of a run for the footers of all formats.
#include "common/support/error.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// True if the average bus bandwidth is at least 0.9 x NCCL_TESTS_MIN_BW, which is nccl-tests' tolerance. True without
/// that variable. With it, false for a run without rows.
inline bool meets_min_busbw(const RunEnd& end) {
  constexpr double kTolerated = 0.9;
  if (!end.min_busbw_bytes_per_s) return true;
  return end.average_busbw_bytes_per_s && *end.average_busbw_bytes_per_s >= *end.min_busbw_bytes_per_s * kTolerated;
}

/// True if the run ended before all its rows.
inline bool ended_early(const RunEnd& end) {
  return end.exit_code != static_cast<int>(ExitCode::good) && end.exit_code != static_cast<int>(ExitCode::wrong_data) &&
         end.exit_code != static_cast<int>(ExitCode::slower_than_demanded);
}

}  // namespace busbw
