#pragma once
// Derives facts about a whole run from its RunEnd, for the footers of all formats.
#include "common/support/error.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// True if the average bus bandwidth is at least 0.9 x NCCL_TESTS_MIN_BW, or if this variable is not set. False if the
/// variable is set and the run has no rows.
inline bool meets_min_busbw(const RunEnd& end) {
  constexpr double kMinFraction = 0.9;  // nccl-tests' tolerance
  if (!end.min_busbw_bytes_per_s) return true;
  return end.average_busbw_bytes_per_s && *end.average_busbw_bytes_per_s >= *end.min_busbw_bytes_per_s * kMinFraction;
}

/// True if a check found wrong data.
inline bool has_wrong_data(const RunEnd& end) { return end.wrong_result_count > 0; }

/// True if the run ended before all its rows were measured. Wrong data and low bandwidth do not end a run.
inline bool ended_early(const RunEnd& end) {
  return end.exit_code != static_cast<int>(ExitCode::good) && end.exit_code != static_cast<int>(ExitCode::wrong_data) &&
         end.exit_code != static_cast<int>(ExitCode::slower_than_demanded);
}

}  // namespace busbw
