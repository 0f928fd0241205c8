#pragma once
// Reporting on rank 0: passes rows to the sinks, keeps totals, and determines the outcome of the run.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "output/sink.hpp"
#include "rendezvous/team/job.hpp"
#include "values/run_result.hpp"

namespace busbw {

class Reporter {
 public:
  Reporter(RunInfo info, std::optional<double> min_busbw_bytes_per_s)
      : info_(std::move(info)), min_busbw_bytes_per_s_(min_busbw_bytes_per_s) {}

  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  /// `facts` come from the backend, which knows them after the ranks are connected.
  void begin(const std::vector<RankInfo>& ranks, const std::vector<std::pair<std::string, std::string>>& facts);
  void rows(const CaseRows& rows);
  void memory(std::vector<RankMemory> memory) { memory_ = std::move(memory); }
  /// Ends the sinks, prints errors and the run's message on stderr, and returns the exit code.
  int finish(const std::optional<Failure>& failure);

 private:
  void add_to_totals(const Measurement& measurement);
  RunEnd end_of(const std::optional<Failure>& failure) const;

  RunInfo info_;
  std::optional<double> min_busbw_bytes_per_s_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::uint64_t rows_ = 0;
  std::uint64_t out_of_bounds_ = 0;
  std::uint64_t wrong_elements_ = 0;
  double busbw_sum_bytes_per_s_ = 0;
  std::uint64_t measurements_ = 0;
  std::vector<RankMemory> memory_;
};

}  // namespace busbw
