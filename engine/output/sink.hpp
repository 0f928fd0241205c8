#pragma once
// Interface of the receivers of measured rows: table, JSON document, records. The Reporter calls them during a run.
#include "values/run_result.hpp"

namespace busbw {

/// To add an output format, derive from this class.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called before the first row. Not called if the run fails earlier.
  virtual void begin(const RunInfo& run) = 0;
  /// Called after each case, which is one size of one configuration, with one row per group of ranks.
  virtual void rows(const CaseRows& rows) = 0;
  /// Called last, also after an interrupt or an error.
  virtual void end(const RunEnd& end) = 0;
};

}  // namespace busbw
