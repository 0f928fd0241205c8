#pragma once
// The table of comm_ops: a row for each call, then the SUMMARY lines of nccl-tests' comm_ops_perf for its parsers.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "output/sink.hpp"
#include "output/text_stream.hpp"

namespace busbw {

/// Contents of the table besides the rows.
struct CommOpsTextOptions {
  bool shows_iterations = false;  // -v: a line for each iteration of each call
  bool summarizes_rendezvous = false;  // -A: a SUMMARY line also for the rendezvous
  int root_every = 0;  // -R: ranks per root of a scalable initialization; 0: no scalable initialization
};

/// Returns a time with its unit: "1.23 s", "12.3 ms", "45.6 us".
std::string duration_text(double seconds);

/// Writes the table to a descriptor.
class CommOpsText final : public Sink {
 public:
  /// `should_drop`: see TextStream.
  CommOpsText(int descriptor, std::function<bool()> should_drop, CommOpsTextOptions options)
      : stream_(descriptor, std::move(should_drop)), options_(options) {}

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  /// Figures of a SUMMARY line, over all calls of all ranks.
  struct Summary {
    std::string name;
    int test_ranks = 0;
    double max_s = 0, mean_s = 0, stdev_s = 0;
    std::size_t calls = 0;  // of each rank
  };

  void append_row(std::string& out, const Row& row);
  void append_summaries(std::string& out);

  TextStream stream_;
  CommOpsTextOptions options_;
  bool begun_ = false;
  std::vector<RankInfo> ranks_;
  std::vector<Summary> summaries_;
};

}  // namespace busbw
