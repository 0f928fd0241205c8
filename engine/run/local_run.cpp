// A local run: selects the backend, plans memory, opens the outputs, then starts the ranks through watch/job_runner.
#include "run/local_run.hpp"

#include "backends/host/host_hardware.hpp"
#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "common/os/processors.hpp"
#include "common/os/signal_mask.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "measure/buffers.hpp"
#include "rendezvous/team/local_job.hpp"
#include "run/rank_runner.hpp"
#include "run/run_setup.hpp"
#include "run/unsupported_types.hpp"

namespace busbw {
namespace {

bool will_fork(const Options& options) { return options.settings.processes > 1; }

std::unique_ptr<Backend> make_backend(const Options& options, const GpuSurvey& survey,
                                      const WatchedCall& watched_call) {
  if (runs_on_host(options, survey)) {
    require_host_backend_supports(options, survey);
    return std::make_unique<SharedMemoryBackend>(options.settings.processes, options.settings.threads,
                                                 std::string(version()), parse_faults(options.faults));
  }
  const NcclBackendConfig config{
      .ranks = options.ranks(), .first_device = options.first_device.value_or(0), .forks = will_fork(options)};
  return watched_call("opening NCCL and its GPUs", [&] { return make_nccl_backend_for(options, survey, config); });
}

/// Warnings about the machine: those of the backend, or about too few processors.
std::vector<std::string> machine_warnings(const Options& options, const Backend& backend) {
  if (backend.name() != "host") return backend.warnings();
  const auto warning = oversubscription_warning(options.ranks(), static_cast<int>(allowed_processors().size()));
  return warning ? std::vector{*warning} : std::vector<std::string>{};
}

}  // namespace

JobResult run_local(const Options& options) {
  const SignalMask mask;
  const auto collective = make_collective(options.collective, options.collective_settings);
  require_group_sizes(options, *collective);
  const WatchedCall watched_call(options,
                                 [&](const CallFailure& failure) { print_stderr(options.program, failure.sentence); });
  const GpuSurvey survey =
      watched_call("looking for GPUs", [&] { return survey_gpus_if_needed(options, will_fork(options)); });
  const auto backend = make_backend(options, survey, watched_call);
  const auto unsupported = unsupported_types(options.data, *collective, *backend);

  const int ranks = options.ranks();
  const MemoryPlan memory = plan_memory(options.settings, ranks, backend->available_bytes(ranks),
                                        backend->work_bytes(ranks), backend->least_free_device());
  require_sample_memory(options.settings, ranks, available_memory_bytes());
  const RunPlan plan =
      make_plan(options, exclude_types(options.data, dtypes_of(unsupported)), *collective, memory.max_bytes);

  LocalJob job(plan.ranks());
  backend->reserve(plan.ranks(), buffer_bytes(plan.max_bytes, plan.settings.unalign_elements));
  RunInfo info = make_run_info(options, plan.settings, *backend, memory);
  for (const std::string& note : host_backend_notes(options, survey)) info.notes.push_back(note);
  for (const std::string& note : excluded_type_notes(unsupported)) info.notes.push_back(note);
  info.warnings = machine_warnings(options, *backend);
  Reporter reporter(std::move(info), options.min_busbw_bytes_per_s);
  open_sinks(options, job, reporter);

  const RunCallbacks callbacks = make_run_callbacks(job, *backend, &reporter);
  const JobLayout layout{plan.settings.processes, plan.ranks_per_process(), no_progress_limit_s(options),
                         options.collective};
  const JobCallbacks job_callbacks{[&](int rank) { run_rank(plan, *backend, *job.team(rank), callbacks); },
                                   [&](const std::optional<Failure>& failure) { return reporter.finish(failure); },
                                   [&] { return backend->diagnosis(); }};
  const JobResult result = run_job(job, layout, job_callbacks);
  print_early_end(options, result.message, result.exit_code);
  // Abandoned threads still use what this scope owns.
  if (result.abandoned) _exit(result.exit_code);
  return result;
}

}  // namespace busbw
