#pragma once
// What one rank has to say of one placement.
#include "measure/checker.hpp"
#include "measure/samples.hpp"

namespace busbw {

struct RankReport {
  Samples samples;
  RankCheckResult findings;
};

}  // namespace busbw
