#pragma once
// Rank 0's end of a run: hands rows to the sinks, keeps the tally, and says how the run ended.
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
  /// `facts`: the backend's, which it knows once the ranks are connected.
  void begin(const std::vector<RankInfo>& ranks, const std::vector<std::pair<std::string, std::string>>& facts);
  void rows(const CaseRows& rows);
  void memory(std::vector<RankMemory> memory) { memory_ = std::move(memory); }
  /// Ends the sinks, says on stderr what the exit code alone would not, and returns that code.
  int finish(const std::optional<Failure>& failure);

 private:
  void count(const Measurement& measurement);
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
