#pragma once
// Facts about rows and whole runs that several output formats need.
#include "common/support/error.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// True if the redop column names an operator. Otherwise the column is nccl-tests' text "none", or empty.
inline bool has_redop(const Row& row) { return !row.redop.empty() && row.redop != "none"; }

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
  switch (static_cast<ExitCode>(end.exit_code)) {
    case ExitCode::good:
    case ExitCode::wrong_data:
    case ExitCode::slower_than_demanded: return false;
    default: return true;
  }
}

}  // namespace busbw
