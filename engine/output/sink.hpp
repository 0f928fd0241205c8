#pragma once
// A sink writes what was measured. It knows rows and runs, not how they were measured.
#include <string>

#include "values/run_result.hpp"

namespace busbw {

class Sink {
 public:
  virtual ~Sink() = default;
  /// Before the first row.
  virtual void begin(const RunInfo& run) = 0;
  /// After each case: one row per group.
  virtual void rows(const CaseRows& rows) = 0;
  /// Last call, also after an interrupt or an error.
  virtual void end(const RunEnd& end) = 0;
};

}  // namespace busbw
