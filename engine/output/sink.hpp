#pragma once
// A sink writes measured rows. It does not depend on how they were measured.
#include <string>

#include "values/run_result.hpp"

namespace busbw {

class Sink {
 public:
  virtual ~Sink() = default;
  /// Called before the first row.
  virtual void begin(const RunInfo& run) = 0;
  /// Called after each case, with one row per group.
  virtual void rows(const CaseRows& rows) = 0;
  /// Called last, also after an interrupt or an error.
  virtual void end(const RunEnd& end) = 0;
};

}  // namespace busbw
