#pragma once
// What the footers say about a run; the same in every format.
#include "common/support/error.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Whether the average bus bandwidth reaches nine tenths of NCCL_TESTS_MIN_BW: nccl-tests' tolerance. Without a demand
/// every run does; with one, a run without a row does not.
inline bool meets_min_busbw(const RunEnd& end) {
  constexpr double kTolerated = 0.9;
  if (!end.min_busbw_bytes_per_s) return true;
  return end.average_busbw_bytes_per_s && *end.average_busbw_bytes_per_s >= *end.min_busbw_bytes_per_s * kTolerated;
}

/// Whether rows are missing that were asked for.
inline bool ended_early(const RunEnd& end) {
  return end.exit_code != static_cast<int>(ExitCode::good) && end.exit_code != static_cast<int>(ExitCode::wrong_data) &&
         end.exit_code != static_cast<int>(ExitCode::slower_than_demanded);
}

}  // namespace busbw
