// A local run: selects the backend, plans memory, opens the outputs, then starts the ranks through watch/job_runner.
#include "run/local_run.hpp"

#include "backends/host/host_hardware.hpp"
#include "backends/registry/backend_registry.hpp"
#include "common/os/environment.hpp"
#include "common/os/signal_mask.hpp"
#include "common/support/stderr_message.hpp"
#include "measure/buffers.hpp"
#include "rendezvous/team/local_job.hpp"
#include "run/rank_runner.hpp"
#include "run/run_setup.hpp"
#include "run/unsupported_types.hpp"
#include "watch/call_watchdog.hpp"

namespace busbw {

JobResult run_local(const Options& options) {
  const SignalMask mask;
  const auto collective = options.make_collective();
  require_group_sizes(options, *collective);
  const CallWatchdog watched_call(no_progress_limit_s(options),
                                  [&](const Failure& failure) { print_stderr(options.program, failure.message); });
  const BackendChoice choice = watched_call("looking for GPUs", [&] {
    return choose_backend(options, /*forks_follow=*/options.settings.processes > 1, process_environment);
  });
  const auto backend = watched_call(choice.entry->activity, [&] { return make_backend(choice, options, World{}); });
  require_replayable(options, *backend);
  const auto unsupported = unsupported_types(options.data, *collective, *backend);

  const int ranks = options.ranks();
  const MemoryPlan memory = plan_run_memory(options, *backend, ranks);
  require_sample_memory(options.settings, ranks, available_memory_bytes());
  const RunPlan plan =
      make_plan(options, exclude_types(options.data, dtypes_of(unsupported)), *collective, memory.max_bytes);

  LocalJob job(plan.ranks());
  backend->reserve(plan.ranks(), plan.bytes_per_buffer());
  RunInfo info = make_run_info(options, plan, *backend, memory);
  if (!choice.no_gpu_reason.empty()) info.notes.push_back("Measured on the host: " + choice.no_gpu_reason);
  for (const std::string& note : excluded_type_notes(unsupported)) info.notes.push_back(note);
  info.warnings = backend->warnings();
  if (!choice.unused_gpus_warning.empty()) info.warnings.push_back(choice.unused_gpus_warning);
  Reporter reporter(std::move(info), options.min_busbw_bytes_per_s);
  open_sinks(options, job, reporter);

  const JobSettings job_settings{.processes = plan.settings.processes,
                                 .ranks_per_process = plan.ranks_per_process(),
                                 .limit_s = no_progress_limit_s(options),
                                 .collective = options.collective};
  const JobCallbacks job_callbacks{
      .run_rank = [&](int rank) { run_rank(plan, *backend, job, rank, &reporter); },
      .finish = [&](const std::optional<Failure>& failure) { return options.at_end(reporter.finish(failure)); },
      .diagnose = [&] { return backend->diagnosis(); }};
  const JobResult result = run_job(job, job_settings, job_callbacks);
  print_early_end(options, result.message, result.exit_code);
  // Abandoned threads still use what this scope owns.
  if (result.abandoned) _exit(result.exit_code);
  return result;
}

}  // namespace busbw
