#include "run/local_run.hpp"

#include "backends/host/host_hardware.hpp"
#include "backends/host/memory/shared_memory_backend.hpp"
#include "backends/mpi/mpi_engine.hpp"
#include "collectives/registry.hpp"
#include "common/os/processors.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "measure/buffers.hpp"
#include "rendezvous/team/local_job.hpp"
#include "run/rank_runner.hpp"
#include "run/run_setup.hpp"
#include "run/unsupported_types.hpp"

namespace busbw {
namespace {

bool forks(const Options& options) { return options.settings.processes > 1; }

std::unique_ptr<Backend> make_backend(const Options& options, const GpuSurvey& survey, const Asking& asking) {
  if (options.backend == "mpi") return make_mpi_backend(World{}, options.faults);
  if (chooses_host(options, survey)) {
    require_host_can(options, survey);
    return std::make_unique<HostBackend>(options.settings.processes, options.settings.threads, std::string(version()),
                                         parse_faults(options.faults));
  }
  const NcclRequest place{
      .ranks = options.ranks(), .first_device = options.first_device.value_or(0), .forks = forks(options)};
  return asking("opening NCCL and its GPUs", [&] { return nccl_backend(options, survey, place); });
}

std::vector<std::string> warnings(const Options& options, const Backend& backend) {
  if (backend.name() != "host") return backend.warnings();
  const auto warning = crowding(options.ranks(), static_cast<int>(own_processors().size()));
  return warning ? std::vector{*warning} : std::vector<std::string>{};
}

}  // namespace

JobResult run_here(const Options& options) {
  const SignalMask mask;
  const auto collective = make_collective(options.collective, options.collective_settings);
  require_groups_can(options, *collective);
  const Asking asking(options, [&](const NoAnswer& end) { complain(options.program, end.sentence); });
  const GpuSurvey survey = asking("looking for GPUs", [&] { return survey_for(options, forks(options)); });
  const auto backend = make_backend(options, survey, asking);
  const auto lacked = lacked_types(options.data, *collective, *backend);

  const int ranks = options.ranks();
  const MemoryPlan memory = plan_memory(options.settings, ranks, backend->available_bytes(ranks),
                                        backend->work_bytes(ranks), backend->scarcest_memory());
  require_room_for_samples(options.settings, ranks, available_memory_bytes());
  const RunPlan plan = make_plan(options, without(options.data, dtypes_of(lacked)), *collective, memory.max_bytes);

  LocalJob job(plan.ranks());
  backend->reserve(plan.ranks(), buffer_bytes(plan.max_bytes, plan.settings.unalign_elements));
  RunInfo info = run_info(options, plan.settings, *backend, memory);
  for (const std::string& note : notes_on_backend(options, survey)) info.notes.push_back(note);
  for (const std::string& note : notes_on(lacked)) info.notes.push_back(note);
  info.warnings = warnings(options, *backend);
  Reporter reporter(std::move(info), options.min_busbw_bytes_per_s);
  open_sinks(options, job, reporter);

  const RunCallbacks callbacks = callbacks_of(job, *backend, &reporter);
  const JobLayout layout{plan.settings.processes, plan.ranks_per_process(), limit_s(options), options.collective};
  const JobCallbacks job_callbacks{[&](int rank) { run_rank(plan, *backend, *job.team(rank), callbacks); },
                                   [&](const std::optional<Failure>& failure) { return reporter.finish(failure); },
                                   [&] { return backend->diagnosis(); }};
  const JobResult result = run_job(job, layout, job_callbacks);
  complain_about(options, result.outcome.message, result.outcome.exit_code);
  // Threads that were left behind still use what this scope owns.
  if (result.abandoned) _exit(result.outcome.exit_code);
  return result;
}

}  // namespace busbw
