#pragma once
// Reporting in rank 0's process: passes rows to the sinks (table, JSON, records), keeps totals, and determines the exit
// code.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "output/sink.hpp"
#include "rendezvous/team/job.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Reporter of a run. Order of calls: add() for each sink, begin(), report_rows() for each case, finish() once.
class Reporter {
 public:
  /// `min_busbw_bytes_per_s` is NCCL_TESTS_MIN_BW: a run below 0.9 times this average busbw fails. Empty: no minimum.
  Reporter(RunInfo info, std::optional<double> min_busbw_bytes_per_s)
      : info_(std::move(info)), min_busbw_bytes_per_s_(min_busbw_bytes_per_s) {}

  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  /// Begins all sinks. `facts` come from the backend, which knows them after the ranks are connected.
  void begin(const std::vector<RankInfo>& ranks, const std::vector<std::pair<std::string, std::string>>& facts);
  /// Passes the rows of one case to the sinks and adds them to the totals.
  void report_rows(const CaseRows& rows);
  void set_memory(std::vector<MemoryUse> memory) { memory_ = std::move(memory); }
  /// Ends the sinks and returns the exit code. `failure` is the reason for an early end; empty if all cases were
  /// measured. Prints errors of sinks, and the reason for a nonzero exit code of a complete run, on stderr.
  int finish(const std::optional<Failure>& failure);

 private:
  void add_to_totals(const Measurement& measurement);
  RunEnd make_run_end(const std::optional<Failure>& failure) const;

  RunInfo info_;
  std::optional<double> min_busbw_bytes_per_s_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::uint64_t row_count_ = 0;
  std::uint64_t wrong_result_count_ = 0;  // sum of the ranks with wrong data in each measurement
  std::uint64_t wrong_element_count_ = 0;
  double busbw_sum_bytes_per_s_ = 0;
  std::uint64_t measurements_with_busbw_ = 0;  // number of summands of the busbw sum
  std::vector<MemoryUse> memory_;  // with -M, else empty
};

}  // namespace busbw
