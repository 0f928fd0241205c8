#pragma once
// Setup before the ranks start, for local runs and launched runs.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "options/options.hpp"
#include "rendezvous/team/job.hpp"
#include "run/memory_plan.hpp"
#include "run/reporter.hpp"
#include "run/run_plan.hpp"
#include "watch/call_watchdog.hpp"

namespace busbw {

/// Limit in seconds for a job without progress: -T, or 600.
double limit_s(const Options& options);

/// Calls a driver or a library with a time limit. If the limit passes or the user stops the program, CallWatchdog ends
/// the process with a message.
class WatchedCall {
 public:
  WatchedCall(const Options& options, std::function<void(const CallFailure&)> on_failure)
      : limit_s_(limit_s(options)), on_failure_(std::move(on_failure)) {}

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
RunInfo run_info(const Options& options, const RunSettings& settings, const Backend& backend, const MemoryPlan& memory);

/// Makes the plan of the job for sizes up to `max_bytes` and the types of `data`; both may be less than requested.
/// `collective` must outlive the plan.
RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes);

/// Opens the outputs of the run. Removes created files if a later one cannot be created.
void open_sinks(const Options& options, const Job& job, Reporter& reporter);

/// Callbacks that report rows to `reporter` on rank 0 and failures of any rank to `job`. `reporter` is null if rank 0
/// belongs to another process. All arguments must outlive the callbacks.
RunCallbacks make_run_callbacks(Job& job, const Backend& backend, Reporter* reporter);

/// Prints the reason for an early end on stderr, if there is one.
void print_early_end(const Options& options, const std::string& message, int exit_code);

/// Throws if the command line requires a GPU but runs on the host backend. EnvironmentError if GPUs were searched for
/// and not found, otherwise UsageError.
void require_host_supports(const Options& options, const GpuSurvey& survey);
/// Makes the NCCL backend. `config` gives this process's ranks and GPUs and whether it forks; the options give the
/// rest. Throws UsageError if NCCL does not support an option, and as make_nccl_backend does.
std::unique_ptr<Backend> nccl_backend(const Options& options, const GpuSurvey& survey, NcclBackendConfig config);
/// True if the run is on the host: selected by --backend, or because there is no GPU.
bool runs_on_host(const Options& options, const GpuSurvey& survey);
/// Note that the run is on the host because no GPU was found. Usually empty.
std::vector<std::string> backend_notes(const Options& options, const GpuSurvey& survey);
/// Surveys the GPUs, unless the host backend was selected. `forks_follow`: this process will run its ranks in
/// forks.
GpuSurvey survey_gpus_for(const Options& options, bool forks_follow);

}  // namespace busbw
