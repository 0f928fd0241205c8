// Makes the plan, the header and the sinks of a run from its options.
#include "run/run_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "backends/nccl/profiler/algorithm_observer.hpp"
#include "common/os/program_file.hpp"
#include "common/os/provenance.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "common/values/quantity.hpp"
#include "measure/buffers.hpp"
#include "measure/clock.hpp"
#include "output/comm_ops_text.hpp"
#include "output/nccl_tests_json.hpp"
#include "output/nccl_tests_text.hpp"
#include "output/record_writer.hpp"
#include "replay/buffer_slices.hpp"
#include "replay/replay_step.hpp"
#include "watch/watchdog.hpp"

namespace busbw {
namespace {

/// Limit for a flow without data, as a share of -T. A receiver may notice a dead flow only after 1.5 times the limit.
/// The sender may need another 1.5 times the limit. Both must happen within -T: (1.5 + 1.5) x 0.3 = 0.9.
constexpr double kFlowLimitShare = 0.3;
constexpr double kMaxFlowLimitS = 30;  // upper bound of this limit

/// True if each call returns only when its operation is done, as it does on backends that the host clock times.
bool calls_block(const BackendTraits& traits) { return traits.clock == BackendTraits::Clock::host; }

std::vector<std::string> header_notes(const Options& options, const MemoryPlan& memory) {
  std::vector<std::string> notes = options.notes;
  notes.insert(notes.end(), memory.notes.begin(), memory.notes.end());
  if (options.settings.rma_contexts > 0)
    notes.push_back(fmt::format("One-sided: ranks put data into buffers of peers and wait for signals (-H {})",
                                options.settings.rma_contexts));
  if (options.ranks() == 1) notes.push_back("One rank: nothing crosses a link, so busbw is 0");
  return notes;
}

/// Adds a note about each flag that has no effect on the backend, and about each call that the backend cannot make.
void add_lifecycle_notes(const CommOpsSettings& settings, const Backend& backend, RunInfo& info) {
  if (!backend.traits().uses_nccl_library) {
    const std::string_view name = backend.traits().name;
    if (settings.root_every > 0)
      info.notes.push_back(fmt::format("-R has no effect: the {} backend has no roots (unique ids)", name));
    if (settings.shares_resources)
      info.notes.push_back(fmt::format("-S has no effect: the {} backend shares no resources", name));
  }
  for (const CreationKind test : settings.tests)
    for (const LifecycleCall call :
         {LifecycleCall::create, settings.aborts ? LifecycleCall::abort : LifecycleCall::finalize}) {
      const std::string reason = backend.missing_lifecycle_call(test, call);
      if (reason.empty()) continue;
      std::string note =
          fmt::format("{} is not measured: {}", call == LifecycleCall::create ? name(test) : name(call), reason);
      if (std::ranges::find(info.notes, note) == info.notes.end()) info.notes.push_back(std::move(note));
    }
}

/// Prints the notes and warnings of a run on stderr.
class StderrNotes final : public Sink {
 public:
  void begin(const RunInfo& run) override {
    for (const auto& lines : {run.notes, run.warnings})
      for (const std::string& line : lines) print_stderr(run.program, line);
  }
  void rows(const CaseRows&) override {}
  void end(const RunEnd&) override {}
};

/// Opens the output of --records. Null without this flag.
std::unique_ptr<RecordWriter> open_records(const Options& options, const std::function<bool()>& should_drop) {
  if (options.records_path.empty()) return nullptr;
  if (options.records_path != "-") return RecordWriter::open(options.records_path);
  return std::make_unique<RecordWriter>(TextStream(options.stdout_descriptor, should_drop));
}

std::unique_ptr<Sink> make_comm_ops_text(const CommOpsSettings& settings, int descriptor,
                                         const std::function<bool()>& should_drop) {
  return std::make_unique<CommOpsText>(descriptor, should_drop,
                                       CommOpsTextOptions{settings.verbose, settings.all_timers, settings.root_every});
}

/// Error for a replay: the buffers of the largest operation do not fit into the free memory.
EnvironmentError replay_memory_error(const MatchedCalls& calls, int ranks, const std::string& free_text) {
  const SliceBytes bytes = slice_bytes(calls);
  return EnvironmentError(fmt::format(
      "{}: {}: 2 buffers of {} for each of {} ranks do not fit into {} of free memory; use fewer ranks on this machine",
      printable_value(calls.program().file),
      operation_text(calls.program(), bytes.largest_call_rank, bytes.largest_call_operation),
      size_text(bytes.min_bytes), ranks, free_text));
}

}  // namespace

double no_progress_limit_s(const Options& options) {
  if (!options.has_timeout) return kDefaultLimitS;
  return options.settings.timeout_s > 0 ? options.settings.timeout_s : std::numeric_limits<double>::infinity();
}

void require_group_sizes(const Options& options, const Collective& collective) {
  const bool is_split = options.split.op != Split::Op::none;
  const std::string_view split_remedy = is_split ? "the groups (NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK), " : "";
  for (const auto& [color, members] : options.groups())
    if (const std::string reason = collective.rank_count_error(static_cast<int>(members.size())); !reason.empty())
      throw UsageError(fmt::format("{}; change {}-t or the number of processes (--processes)", reason, split_remedy));
}

void require_replayable(const Options& options, const Backend& backend) {
  if (!options.replay) return;
  for (const DistinctCall& call : options.replay->distinct_calls()) {
    const Collective* const collective = find_collective(call.function);
    const bool reduces = collective && collective->reduces();
    if (const auto limitation = backend.limitation_of(call.dtype, reduces))
      throw EnvironmentError(fmt::format("{} in {}: {}; {}, or replay another trace", name(call.dtype),
                                         name(call.function), limitation->reason, limitation->remedy));
  }
  if (calls_block(backend.traits())) options.replay->require_blocking_order();
}

MemoryPlan plan_run_memory(const Options& options, const Backend& backend, int ranks) {
  RunSettings settings = options.settings;
  // plan_memory may reduce the maximum size, but not below the minimum. The counts of a skew must not be reduced, so
  // both sizes are that of the busiest rank.
  if (!settings.skew.empty()) settings.min_bytes = settings.max_bytes = options.largest_rank_bytes();
  const std::size_t neighbor_bytes =
      options.neighbor ? 2 * static_cast<std::size_t>(ranks) * buffer_bytes(options.neighbor->bytes, 0) : 0;
  const auto plan_with = [&](std::size_t bytes_of_neighbor) {
    return plan_memory(settings, ranks, backend.available_bytes(ranks), backend.work_bytes(ranks) + bytes_of_neighbor,
                       backend.least_free_device());
  };
  try {
    return plan_with(neighbor_bytes);
  } catch (const EnvironmentError&) {
    const std::string free_text = size_text(backend.available_bytes(ranks));
    if (!settings.skew.empty())
      throw EnvironmentError(
          fmt::format("--skew {}: the busiest rank needs 2 buffers of {}; on {} ranks they do not fit into {} of free "
                      "memory; use smaller sizes (-e, --sizes, the counts of a file) or fewer ranks",
                      printable_value(settings.skew), size_text(settings.max_bytes), ranks, free_text));
    if (options.neighbor) {
      plan_with(0);  // throws if the measured operation does not fit even without the neighbor
      throw EnvironmentError(fmt::format(
          "--with {}: its buffers on {} ranks need {}; with those of the measured operation they do not fit into {} of "
          "free memory; use a smaller neighbor, smaller sizes (-e, --sizes) or fewer ranks",
          printable_value(settings.neighbor), ranks, size_text(neighbor_bytes), free_text));
    }
    if (options.replay) throw replay_memory_error(*options.replay, ranks, free_text);
    throw;
  }
}

RunInfo make_run_info(const Options& options, const RunPlan& plan, const Backend& backend, const MemoryPlan& memory) {
  const WallTime now = wall_time();
  RunInfo info;
  info.program = options.program;
  info.collective = options.collective;
  info.busbw_version = version();
  info.busbw_build = program_build_id();
  info.busbw_path = program_path();
  info.backend = backend.traits();
  info.backend_version = backend.version();
  info.headers_version = backend.headers();
  info.run_id = fmt::format("{}-{}-{}", now.compact, host_name(), getpid());
  info.start_time = now.local;
  info.start_time_iso = now.iso;
  info.args = options.args;
  info.environment = tuning_environment(environ);
  // The engine itself sets this variable, to a path that differs between installations.
  std::erase(info.environment, std::pair<std::string, std::string>(kProfilerVariable, find_profiler_plugin()));
  info.machine = machine_facts();
  info.settings = plan.settings;
  info.notes = header_notes(options, memory);
  // Number of passes over the sizes. 0 for an endless sweep (-N 0).
  const std::size_t passes = plan.sweep.configurations.size() * static_cast<std::size_t>(plan.sweep.cycles);
  if (plan.comm_ops) {
    add_lifecycle_notes(*plan.comm_ops, backend, info);
  } else if (passes > 0) {
    const auto& sizes_bytes = plan.sweep.sizes_bytes;
    info.rows_planned = passes * sizes_bytes.size();
    info.bytes_planned = static_cast<double>(passes) * std::accumulate(sizes_bytes.begin(), sizes_bytes.end(), 0.0);
  }
  if (plan.settings.max_bytes < options.settings.max_bytes) info.requested_max_bytes = options.settings.max_bytes;
  return info;
}

RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes) {
  Sweep sweep = plan_sweep(data, options.settings, collective, options.smallest_group());
  RunSettings settings = options.settings;
  if (options.replay) {
    sweep.sizes_bytes = {step_bytes(options.replay->program())};
    settings.max_bytes = max_bytes;
  } else if (max_bytes < settings.max_bytes) {
    settings.max_bytes = max_bytes;
    sweep.sizes_bytes = sizes_between(settings.min_bytes, max_bytes, settings.step_factor, settings.step_bytes);
  }
  RunPlan plan{collective, std::move(sweep), settings, {}, options.split, max_bytes};
  plan.fault = options.fault;
  plan.neighbor = options.neighbor;
  if (!settings.skew.empty())
    plan.balanced =
        make_collective(options.collective, {.alltoallv = {.pattern = DistanceSpread{.spread = 0}}});  // even counts
  plan.replay = options.replay;
  if (options.serves_flows())
    plan.flow_service = {options.requests_descriptor, options.stdout_descriptor,
                         std::min(kMaxFlowLimitS, no_progress_limit_s(options) * kFlowLimitShare)};
  plan.comm_ops = options.comm_ops;
  if (settings.placement != "in") plan.placements.push_back(Placement::out_of_place);
  if (settings.placement != "out") plan.placements.push_back(Placement::in_place);
  return plan;
}

void open_sinks(const Options& options, const Job& job, Reporter& reporter) {
  if (options.serves_flows()) {  // stdout carries answers only
    reporter.add(std::make_unique<StderrNotes>());
    return;
  }
  // An aborted job does not wait for a slow reader of stdout.
  const auto should_drop = [&job] { return job.aborted(); };
  if (options.comm_ops) {
    if (auto records = open_records(options, should_drop)) reporter.add(std::move(records));
    reporter.add(make_comm_ops_text(*options.comm_ops, options.stdout_descriptor, should_drop));
    return;
  }
  auto text = std::make_unique<NcclTestsText>(options.stdout_descriptor, should_drop);
  std::unique_ptr<NcclTestsJson> json;
  if (!options.json_path.empty()) json = NcclTestsJson::open(options.json_path);
  std::unique_ptr<RecordWriter> records;
  try {
    records = open_records(options, should_drop);
    if (json) text->comment(fmt::format("Writing JSON output to {}", json->path()));
  } catch (...) {
    if (json) json->discard();
    if (records) records->discard();
    throw;
  }
  // The sinks get each row in this order. Records are first, so that they get a row even if a reader has closed stdout.
  if (records) reporter.add(std::move(records));
  if (json) reporter.add(std::move(json));
  reporter.add(std::move(text));
}

void print_early_end(const Options& options, const std::string& message, int exit_code) {
  if (!message.empty() && exit_code != static_cast<int>(ExitCode::output_closed))
    print_stderr(options.program, message);
}

}  // namespace busbw
