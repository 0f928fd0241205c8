#pragma once
// What a run needs before its ranks start, whether this process runs them all or is one of several.
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

/// How long no rank may get on, in seconds: -T, or 600.
double limit_s(const Options& options);

/// Does what may ask a driver or a library: where no answer comes within that limit, or the user stops the program, the
/// process ends with a sentence (CallWatchdog).
class WatchedCall {
 public:
  WatchedCall(const Options& options, std::function<void(const CallFailure&)> last_words)
      : limit_s_(limit_s(options)), last_words_(std::move(last_words)) {}

  /// `what` as in "looking for GPUs".
  template <typename Work>
  auto operator()(const char* what, const Work& work) const {
    const CallWatchdog guard(what, limit_s_, last_words_);
    return work();
  }

 private:
  const double limit_s_;
  const std::function<void(const CallFailure&)> last_words_;
};

/// Throws UsageError where the collective cannot run in one of the groups.
void require_group_sizes(const Options& options, const Collective& collective);

/// What a person is told of the run, and what the record says of it; the ranks are added later.
RunInfo run_info(const Options& options, const RunSettings& settings, const Backend& backend, const MemoryPlan& memory);

/// The plan of the job with sizes up to `max_bytes`, which may be less than was asked for, as `data` may be.
/// `collective` must outlive it.
RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes);

/// Opens what the run writes to; files that were created go again when one of them cannot be.
void open_sinks(const Options& options, const Job& job, Reporter& reporter);

/// What ranks tell: rank 0 the `reporter`, which is null where that rank is another process's, and whoever fails the
/// job. All of them must outlive it.
RunCallbacks make_run_callbacks(Job& job, const Backend& backend, Reporter* reporter);

/// Says on stderr why the run ended early, where it did.
void print_early_end(const Options& options, const std::string& message, int exit_code);

/// Throws UsageError where the command line asks the host backend for something that only GPUs have.
/// EnvironmentError where it was GPUs that were looked for, and there are none.
void require_host_supports(const Options& options, const GpuSurvey& survey);
/// NCCL on GPUs. `place` says which ranks and GPUs are this process's, and whether it forks; all else the options say.
/// Throws UsageError where they ask for something that NCCL has not, and as make_nccl_backend does.
std::unique_ptr<Backend> nccl_backend(const Options& options, const GpuSurvey& survey, NcclBackendConfig place);
/// Whether the run is on the host: it was named, or there is no GPU.
bool runs_on_host(const Options& options, const GpuSurvey& survey);
/// What a person is told where the run is on the host because no GPU was found; mostly nothing.
std::vector<std::string> backend_notes(const Options& options, const GpuSurvey& survey);
/// The GPUs, unless the host or MPI was named; `forks_follow`: this process will run its ranks in forks.
GpuSurvey survey_gpus_for(const Options& options, bool forks_follow);

}  // namespace busbw
