#pragma once
// Steps before the ranks start that local_run and launched_run share: time limits, the plan, the outputs, and the
// callbacks of the ranks.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "options/options.hpp"
#include "rendezvous/team/job.hpp"
#include "run/memory_plan.hpp"
#include "run/reporter.hpp"
#include "run/run_plan.hpp"
#include "watch/call_watchdog.hpp"

namespace busbw {

/// Limit in seconds for a job without progress: -T, or 600. Infinite for -T 0.
double no_progress_limit_s(const Options& options);

/// Calls a driver or a library with a time limit. If the limit passes or the user stops the program, CallWatchdog calls
/// `on_failure`, which prints a message, and then ends the process.
class WatchedCall {
 public:
  WatchedCall(const Options& options, std::function<void(const CallFailure&)> on_failure)
      : limit_s_(no_progress_limit_s(options)), on_failure_(std::move(on_failure)) {}

  /// `activity` completes messages: "looking for GPUs".
  template <typename Work>
  auto operator()(const char* activity, const Work& work) const {
    const CallWatchdog guard(activity, limit_s_, on_failure_);
    return work();
  }

 private:
  const double limit_s_;
  const std::function<void(const CallFailure&)> on_failure_;
};

/// Throws UsageError if the collective cannot run in one of the groups.
void require_group_sizes(const Options& options, const Collective& collective);

/// Information about the run for the header and the record. The ranks are added later.
RunInfo make_run_info(const Options& options, const RunSettings& settings, const Backend& backend,
                      const MemoryPlan& memory);

/// Makes the plan of the job for sizes up to `max_bytes` and the types of `data`; both may be less than requested.
/// `collective` must outlive the plan.
RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes);

/// Opens the outputs of the run. Removes created files if a later one cannot be created.
void open_sinks(const Options& options, const Job& job, Reporter& reporter);

/// Makes callbacks that report rows to `reporter` on rank 0 and failures of any rank to `job`. `reporter` is null if
/// rank 0 belongs to another process. All arguments must outlive the callbacks.
RunCallbacks make_run_callbacks(Job& job, const Backend& backend, Reporter* reporter);

/// Prints `message`, the reason for an early end, on stderr. Prints nothing if it is empty, or if the reader of stdout
/// has closed it.
void print_early_end(const Options& options, const std::string& message, int exit_code);

}  // namespace busbw
