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
  bool shows_details = false;  // -v: a line for each call, and for each rank
  bool shows_all_timers = false;  // -A: optional timers too
  int root_every = 0;  // -R: ranks per root of a scalable initialization; 0: no scalable initialization
};

/// Returns a time with its unit: "1.23 s", "12.3 ms", "45.6 us".
std::string duration_text(double seconds);

/// Maximum, mean and standard deviation of several times.
struct TimeFigures {
  double max_s = 0, mean_s = 0;

  void add(const std::vector<double>& times_s);
  double stdev_s() const;

 private:
  std::size_t count_ = 0;
  double square_sum_ = 0;  // of the differences from the mean
};

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
  /// A SUMMARY line: a timer (TimerCalls) of a test with `test_ranks` ranks, over all calls of all ranks.
  struct Summary {
    std::string test;
    std::string timer;
    int test_ranks = 0;
    TimeFigures figures = {};
    std::size_t calls = 0;  // of each rank
  };

  void append_row(std::string& out, const Row& row);
  void append_details(std::string& out, const Row& row);
  bool is_shown(const TimerCalls& timer) const { return options_.shows_all_timers || !timer.is_optional; }
  void add_to_summary(const LifecycleRow& lifecycle, const TimerCalls& timer);
  void append_summaries(std::string& out);
  static void append_summary(std::string& out, const Summary& summary);
  /// Returns each text of a field once, in the order of `summaries`.
  static std::vector<std::string> distinct(const std::vector<Summary>& summaries, std::string Summary::* field);

  TextStream stream_;
  CommOpsTextOptions options_;
  bool begun_ = false;
  bool has_roots_ = false;  // root_every has an effect: the initialization has roots (unique ids of a library)
  std::vector<RankInfo> ranks_;
  std::vector<Summary> summaries_;
};

}  // namespace busbw
