// One main for every program: the name it is called by picks the collective, and here is the one catch.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "backends/host/machine.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "collectives/all.hpp"
#include "measure/buffers.hpp"
#include "measure/clock.hpp"
#include "measure/job_runner.hpp"
#include "measure/memory_plan.hpp"
#include "measure/runner.hpp"
#include "measure/watchdog.hpp"
#include "options.hpp"
#include "options_table.hpp"
#include "output/nccl_tests_json.hpp"
#include "output/nccl_tests_text.hpp"
#include "output/records.hpp"
#include "rendezvous/local_job.hpp"
#include "reporter.hpp"
#include "support/complain.hpp"
#include "support/error.hpp"
#include "support/provenance.hpp"
#include "support/version.hpp"
#include "sweep.hpp"

namespace busbw {
namespace {

constexpr std::string_view kSuffix = "_perf";
constexpr std::string_view kEngine = "busbw-engine";

/// What is asked for: which collective, under which program name, with which arguments.
struct Invocation {
  std::string program;
  std::string collective;
  std::vector<std::string> arguments;
};

std::string list_of_collectives() {
  std::string names;
  for (const auto& entry : all_collectives()) names += fmt::format(" {}", entry.name);
  return names;
}

bool is_collective(std::string_view name) {
  return std::ranges::any_of(all_collectives(), [&](const auto& entry) { return entry.name == name; });
}

/// The name that messages begin with.
std::string_view without_folder(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

/// By its own name the engine takes the collective as its first argument: `busbw-engine all_reduce -t 4`.
Invocation read_invocation(std::string_view called_as, std::vector<std::string> arguments) {
  const std::string name(without_folder(called_as));
  if (name.ends_with(kSuffix) && is_collective(name.substr(0, name.size() - kSuffix.size())))
    return {name, name.substr(0, name.size() - kSuffix.size()), std::move(arguments)};
  if (arguments.empty() || (!is_collective(arguments.front()) && !arguments.front().starts_with('-')))
    throw UsageError(fmt::format("{} {}: no such collective; allowed are{}, or a program name such as all_reduce_perf",
                                 kEngine, arguments.empty() ? "(nothing)" : arguments.front(), list_of_collectives()));
  if (arguments.front().starts_with('-')) {
    constexpr std::array allowed{"--version", "--list-devices", "--help", "-h"};
    if (std::ranges::find(allowed, arguments.front()) == allowed.end())
      throw UsageError(fmt::format("{} {}: no collective is named before the options; allowed are{}", kEngine,
                                   arguments.front(), list_of_collectives()));
    return {std::string(kEngine), "all_reduce", std::move(arguments)};
  }
  const std::string collective = arguments.front();
  arguments.erase(arguments.begin());
  return {collective + std::string(kSuffix), collective, std::move(arguments)};
}

std::string version_text() {
  return fmt::format("busbw {}\nbackend host {}\nrecord schema {}\nnccl-tests table 2.19.6\n", version(), version(),
                     kSchemaVersion);
}

/// Groups for which the collective cannot run are a doubt about the command line.
int smallest_group(const Options& options, const Collective& collective) {
  int smallest = options.ranks();
  for (const auto& [colour, members] : options.groups()) {
    const int ranks = static_cast<int>(members.size());
    if (const std::string why = collective.refuses(ranks); !why.empty())
      throw UsageError(fmt::format("{}; change -t or --processes", why));
    smallest = std::min(smallest, ranks);
  }
  return smallest;
}

std::vector<std::string> header_notes(const Options& options, const MemoryPlan& memory) {
  std::vector<std::string> notes = options.notes;
  notes.insert(notes.end(), memory.notes.begin(), memory.notes.end());
  if (options.ranks() == 1) notes.push_back("One rank: nothing crosses a link, so busbw is 0");
  return notes;
}

std::vector<std::string> run_warnings(const Options& options, const Backend& backend) {
  if (backend.name() != "host") return {};
  const int processors = static_cast<int>(std::thread::hardware_concurrency());  // those this process may use
  if (options.ranks() <= processors) return {};
  return {
      fmt::format("{} ranks share {} processors, so times include waiting for a turn; use at most {} ranks to time the "
                  "communication alone",
                  options.ranks(), processors, processors)};
}

RunInfo run_info(const Options& options, const RunPlan& plan, const Backend& backend, const MemoryPlan& memory) {
  const WallTime now = wall_time();
  RunInfo info;
  info.program = options.program;
  info.collective = options.collective;
  info.busbw_version = version();
  info.backend = backend.name();
  info.backend_version = backend.version();
  info.run_id = fmt::format("{}-{}-{}", now.compact, host_name(), getpid());
  info.start_time = now.local;
  info.start_time_iso = now.iso;
  info.args = options.args;
  info.environment = tuning_environment(environ);
  info.machine = machine_facts();
  for (const auto& fact : backend.facts()) info.machine.push_back(fact);
  info.settings = plan.settings;
  info.notes = header_notes(options, memory);
  info.warnings = run_warnings(options, backend);
  return info;
}

/// Opens what the run writes to; files that were created go again when one of them cannot be.
void open_sinks(const Options& options, const LocalJob& job, Reporter& reporter) {
  auto text = std::make_unique<NcclTestsText>(STDOUT_FILENO, [&job] { return job.aborted(); });
  std::unique_ptr<NcclTestsJson> json;
  if (!options.json_path.empty()) json = NcclTestsJson::open(options.json_path);
  std::unique_ptr<Records> records;
  try {
    if (!options.records_path.empty()) records = Records::open(options.records_path);
    if (json) text->comment(fmt::format("Writing JSON output to {}", json->path()));
  } catch (...) {
    if (json) json->discard();
    if (records) records->discard();
    throw;
  }
  // Records first: a reader of stdout that goes away must not cost them a row.
  if (records) reporter.add(std::move(records));
  if (json) reporter.add(std::move(json));
  reporter.add(std::move(text));
}

std::unique_ptr<Backend> make_host_backend(const Options& options) {
  if (!options.host_cannot.empty()) throw UsageError(options.host_cannot);
  Faults faults;
  for (const std::string& fault : options.faults) faults.push_back(parse_fault(fault));
  return std::make_unique<HostBackend>(options.settings.processes, options.settings.threads, std::string(version()),
                                       std::move(faults));
}

/// What the user named; without a name the GPUs where there are some.
std::unique_ptr<Backend> make_backend(const Options& options) {
  if (options.backend == "host") return make_host_backend(options);
  const GpuSurvey survey = survey_gpus();
  if (options.backend == "auto" && survey.gpus.empty()) return make_host_backend(options);
  if (!options.nccl_cannot.empty()) throw UsageError(options.nccl_cannot);
  return make_nccl_backend({options.ranks(), options.first_device, options.nccl_library, options.null_stream}, survey);
}

/// One line for each GPU: index, bus id, name. Why there is none is no error, so it goes to stderr.
void list_devices(const std::string& program) {
  const GpuSurvey survey = survey_gpus();
  if (survey.gpus.empty()) complain(program, "no GPU: " + survey.why_none);
  for (std::size_t i = 0; i < survey.gpus.size(); ++i)
    fmt::print("{} {} {}\n", i, survey.gpus[i].bus_id, survey.gpus[i].name);
}

/// How long no rank may get on.
double limit_s(const Options& options) {
  if (!options.has_timeout) return kDefaultLimitS;
  return options.settings.timeout_s > 0 ? options.settings.timeout_s : std::numeric_limits<double>::infinity();
}

JobResult measure(const Options& options) {
  const SignalMask mask;
  // A file that may not grow is an error to tell, not a signal that kills.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto collective = make_collective(options.collective, options.collective_settings);
  Sweep sweep = plan_sweep(options.data, options.settings, *collective, smallest_group(options, *collective));
  const auto backend = make_backend(options);

  const MemoryPlan memory =
      plan_memory(options.settings, options.ranks(), backend->available_bytes(), backend->work_bytes(options.ranks()));
  require_room_for_samples(options.settings, options.ranks(), available_memory_bytes());
  RunSettings settings = options.settings;
  if (memory.max_bytes < settings.max_bytes) {
    settings.max_bytes = memory.max_bytes;
    sweep.sizes_bytes =
        sizes_between(settings.min_bytes, settings.max_bytes, settings.step_factor, settings.step_bytes);
  }
  RunPlan plan{*collective, std::move(sweep), settings, {}, options.split, settings.max_bytes};
  if (options.out_of_place) plan.placements.push_back(Placement::out_of_place);
  if (options.in_place) plan.placements.push_back(Placement::in_place);

  LocalJob job(plan.ranks());
  backend->reserve(plan.ranks(), buffer_bytes(plan.max_bytes, settings.unalign_elements));
  Reporter reporter(run_info(options, plan, *backend, memory), options.min_busbw_bytes_per_s);
  open_sinks(options, job, reporter);

  const RunCallbacks callbacks{[&](const std::vector<RankInfo>& ranks) { reporter.begin(ranks); },
                               [&](const CaseRows& rows) { reporter.rows(rows); }};
  const JobLayout layout{settings.processes, plan.ranks_per_process(), limit_s(options)};
  const JobCallbacks job_callbacks{[&](int rank) { run_rank(plan, *backend, *job.team(rank), callbacks); },
                                   [&](const std::optional<Failure>& failure) { return reporter.finish(failure); }};
  const JobResult result = run_job(job, layout, job_callbacks);
  if (!result.outcome.message.empty() && result.outcome.exit_code != static_cast<int>(Exit::output_closed))
    complain(options.program, result.outcome.message);
  // Threads that were left behind still use what this scope owns.
  if (result.abandoned) _exit(result.outcome.exit_code);
  return result;
}

/// A standard stream that was closed must not become the number of the next file that is opened: what is printed would
/// land in it. Reading is all that the stand-in allows, so writing still fails.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
}

int run(std::string_view called_as, std::vector<std::string> arguments) {
  const Invocation invocation = read_invocation(called_as, std::move(arguments));
  const auto parsed =
      parse_options(invocation.program, invocation.collective, invocation.arguments, process_environment);
  if (const auto* request = std::get_if<Request>(&parsed)) {
    switch (*request) {
      case Request::help: fmt::print("{}", help_text(invocation.program)); break;
      case Request::version: fmt::print("{}", version_text()); break;
      case Request::devices: list_devices(invocation.program); break;
    }
    return 0;
  }
  return measure(std::get<Options>(parsed)).outcome.exit_code;
}

}  // namespace
}  // namespace busbw

int main(int argc, char** argv) {
  try {
    busbw::occupy_standard_descriptors();
    return busbw::run(argv[0], {argv + 1, argv + argc});
  } catch (const busbw::Error& error) {
    if (error.exit() != busbw::Exit::output_closed) busbw::complain(busbw::without_folder(argv[0]), error.what());
    return static_cast<int>(error.exit());
  } catch (const std::exception& error) {
    busbw::complain(busbw::without_folder(argv[0]), error.what());
    return static_cast<int>(busbw::Exit::environment);
  }
}
