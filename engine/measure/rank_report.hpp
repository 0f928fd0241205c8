#pragma once
// Report of one rank on one placement. Rank 0 gathers the reports of all ranks.
#include "measure/checker.hpp"
#include "measure/samples.hpp"

namespace busbw {

/// Times of one rank, and the wrong elements that it found.
struct RankReport {
  Samples samples;
  RankCheckResult check_result;
};

}  // namespace busbw
