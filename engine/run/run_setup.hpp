#pragma once
// Steps before the ranks start that local_run and launched_run share: time limit, choice of the backend, the plan, and
// the outputs.
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

namespace busbw {

/// Limit in seconds for a job without progress: -T, or 600. Infinite for -T 0.
double no_progress_limit_s(const Options& options);

/// Throws UsageError if the collective cannot run in one of the groups.
void require_group_sizes(const Options& options, const Collective& collective);

/// Information about the run for the header and the record. The ranks are added later.
RunInfo make_run_info(const Options& options, const RunPlan& plan, const Backend& backend, const MemoryPlan& memory);

/// Makes the plan of the job for sizes up to `max_bytes` and the types of `data`; both may be less than requested.
/// `collective` must outlive the plan.
RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes);

/// Opens the outputs of the run. Removes created files if a later one cannot be created.
void open_sinks(const Options& options, const Job& job, Reporter& reporter);

/// Prints `message`, the reason for an early end, on stderr. Prints nothing if it is empty, or if the reader of stdout
/// has closed it.
void print_early_end(const Options& options, const std::string& message, int exit_code);

/// Throws if the command line has flags that the host backend does not support: EnvironmentError if GPUs were searched
/// for and not found, otherwise UsageError.
void require_host_backend_supports(const Options& options, const GpuSurvey& survey);
/// Makes the NCCL backend. `config` has this process's ranks and GPUs and whether it forks; the other members are set
/// from the options. Throws UsageError if NCCL does not support an option, and EnvironmentError as make_nccl_backend
/// does.
std::unique_ptr<Backend> make_nccl_backend_for(const Options& options, const GpuSurvey& survey,
                                               NcclBackendConfig config);
/// True if the run is on the host: selected by --backend, or because there is no GPU.
bool runs_on_host(const Options& options, const GpuSurvey& survey);
/// Note that the run is on the host because no GPU was found. Empty if the host was selected, or if there are GPUs.
std::vector<std::string> host_backend_notes(const Options& options, const GpuSurvey& survey);
/// Surveys the GPUs, unless the host backend was selected. `forks_follow`: this process will run its ranks in
/// forks.
GpuSurvey survey_gpus_if_needed(const Options& options, bool forks_follow);

}  // namespace busbw
