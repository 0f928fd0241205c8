// One process of a launched run, in this order: join the job, agree on memory and element types, open the outputs in
// process 0, run the local ranks, report the result. LaunchedJob connects the processes.
#include "run/launched_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "backends/host/host_hardware.hpp"
#include "backends/registry/backend_registry.hpp"
#include "common/os/environment.hpp"
#include "common/os/file_hash.hpp"
#include "common/os/processors.hpp"
#include "common/os/signal_mask.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "common/trace/trace_file.hpp"
#include "measure/buffers.hpp"
#include "rendezvous/launched_job.hpp"
#include "run/process_agreement.hpp"
#include "run/rank_runner.hpp"
#include "run/run_setup.hpp"
#include "watch/call_watchdog.hpp"

namespace busbw {
namespace {

/// A process that is silent for this long is lost, even if -T is longer.
constexpr double kMaxSilenceS = 30;

Membership make_membership(const Options& options, const World& world) {
  const double limit_s = no_progress_limit_s(options);
  return {.process = world.rank,
          .processes = world.size,
          .ranks_per_process = options.ranks_per_process(),
          .store = world.store,
          .token = world.token,
          .join_limit_s = std::min(world.join_limit_s, limit_s),
          .step_limit_s = limit_s,
          .silence_s = std::min(kMaxSilenceS, limit_s),
          .tolerates_losses = options.serves_flows(),  // `busbw find` measures the remaining processes
          .hosts = world.hosts};
}

/// Withdraws this process after an error before its ranks start. Returns false if the job does not continue without
/// this process. After true, the caller must end the process with exit code 0, because process 0 reports the loss as a
/// result of `busbw find`.
bool withdraw_before_start(LaunchedJob& job, const std::string& message) {
  return job.withdraw("cannot start: " + message);
}

/// Returns the variables that change what is measured and should be equal in all processes. NCCL_TESTS_DEVICE may
/// differ.
NamedValues common_tuning_environment() {
  NamedValues values = tuning_environment(environ);
  std::erase_if(values, [](const auto& entry) {
    constexpr std::array<std::string_view, 4> prefixes{"NCCL_", "FI_", "UCX_", "CUDA_LAUNCH_BLOCKING"};
    const std::string& variable = entry.first;
    const bool is_common = std::ranges::any_of(prefixes, [&](auto prefix) { return variable.starts_with(prefix); });
    return !is_common || variable == "NCCL_TESTS_DEVICE";
  });
  return values;
}

ProcessInfo describe_process(const Options& options, const Backend& backend, const LaunchedJob& job,
                             const MemoryPlan& memory, const std::vector<UnsupportedType>& unsupported) {
  ProcessInfo process;
  process.host = host_name();
  process.host_identity = host_identity();
  process.arguments = fmt::format("{}", fmt::join(options.args, " "));
  process.version = version();
  process.backend = backend.traits().name;
  process.trace = trace::trace_settings(process_environment) ? "recorded" : "not recorded";
  if (options.replay)
    process.trace +=
        ", replay program with SHA-256 " + hash_of_file(options.replay->program().file).value_or("unknown");
  process.library_version = backend.version();
  if (const auto library = backend.library()) {
    process.library_path = library->path;
    process.library_sha256 = library->sha256.value_or("");
  }
  process.store_address = job.store_address_text();
  process.max_bytes = memory.max_bytes;
  process.tuning = common_tuning_environment();
  process.unsupported = unsupported;
  if (backend.traits().memory == BackendTraits::Memory::host)
    process.processors = allowed_processors();
  else
    for (int i = 0; i < options.ranks_per_process(); ++i) process.gpus.push_back(backend.device(i).bus_id);
  return process;
}

/// This process, after all processes have joined the job. Its methods throw Error, which ends the job.
class LaunchedProcess {
 public:
  LaunchedProcess(const Options& options, const World& world, const BackendChoice& choice, LaunchedJob& job)
      : options_(options),
        world_(world),
        choice_(choice),
        job_(job),
        watched_call_(no_progress_limit_s(options), [this](const Failure& failure) { abort_and_exit(failure); }),
        collective_(options.make_collective()),
        backend_(watched_call_(choice.entry->activity, [&] { return make_backend(choice, options, world); })) {}

  JobResult run() {
    require_replayable(options_, *backend_);
    const auto unsupported = unsupported_types(options_.data, *collective_, *backend_);
    const int ranks_on_host = world_.local_size * options_.ranks_per_process();
    MemoryPlan memory = plan_run_memory(options_, *backend_, ranks_on_host);
    require_sample_memory(options_.settings, options_.ranks(), available_memory_bytes());
    const DataChoice data = agree_on_memory_and_types(memory, unsupported);
    RunPlan plan = make_plan(options_, data, *collective_, memory.max_bytes);
    plan.first_rank = world_.rank * plan.ranks_per_process();
    backend_->reserve(plan.ranks_per_process(), plan.bytes_per_buffer());

    std::optional<Reporter> reporter;
    if (world_.rank == 0) {
      reporter.emplace(make_launched_run_info(plan, memory), options_.min_busbw_bytes_per_s);
      open_sinks(options_, job_, *reporter);
    }
    Reporter* const row_reporter = reporter ? &*reporter : nullptr;
    const auto finish = [&](const std::optional<Failure>& failure) {
      // With --search, `at_end` returns the exit code of SearchProcess::finish.
      if (reporter) return options_.at_end(reporter->finish(failure));
      if (!failure) return 0;
      // Process 0 writes the table, so details that only this process knows go to stderr.
      for (const std::string& detail : failure->details)
        print_stderr(options_.program, job_.with_rank_name(plan.first_rank, detail));
      return static_cast<int>(failure->exit);
    };
    const JobCallbacks job_callbacks{.run_rank = [&](int rank) { run_rank(plan, *backend_, job_, rank, row_reporter); },
                                     .finish = finish,
                                     .diagnose = [&] { return backend_->diagnosis(); }};
    const JobSettings job_settings{.processes = 1,  // none to fork, because a launcher starts all processes
                                   .ranks_per_process = plan.ranks_per_process(),
                                   .limit_s = no_progress_limit_s(options_),
                                   .collective = options_.collective};
    const JobResult result = run_process_of_job(job_, plan.first_rank, job_settings, job_callbacks);
    print_early_end(options_, result.message, result.exit_code);
    if (result.abandoned) {
      job_.leave();
      _exit(result.exit_code);  // abandoned threads still use what this scope owns
    }
    return result;
  }

 private:
  /// Ends this process after a driver call did not return or a signal arrived. If a call did not return, the job
  /// continues without this process if it tolerates the loss. Otherwise aborts the job, because the other processes
  /// would detect the loss late. Then prints the job's first failure, which may be that of another process.
  void abort_and_exit(const Failure& call_failure) {
    const bool is_timeout = call_failure.exit == ExitCode::rank_lost;
    if (is_timeout && withdraw_before_start(job_, call_failure.message)) {
      job_.leave();
      _exit(0);
    }
    const int first_rank = world_.rank * options_.ranks_per_process();
    job_.abort(call_failure.exit, job_.with_rank_name(first_rank, call_failure.message));
    const Failure first_failure = *job_.failure();
    print_stderr(options_.program, first_failure.message);
    job_.leave();
    _exit(static_cast<int>(first_failure.exit));
  }

  /// Agrees with all processes on the largest size, which is stored in `memory`, and on the element types, which are
  /// returned. Process 0 compares the processes and throws if they are incompatible.
  DataChoice agree_on_memory_and_types(MemoryPlan& memory, const std::vector<UnsupportedType>& unsupported) {
    const auto compare_and_decide = [&](const std::vector<Bytes>& messages) {
      std::vector<ProcessInfo> processes;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].empty()) continue;  // the process is lost
        processes.push_back(MessageReader(messages[i]).take<ProcessInfo>());
        processes.back().number = static_cast<int>(i);
      }
      agreement_ = compare_processes(processes, options_.ranks_per_process());
      return MessageWriter().add(agreement_.max_bytes).add(dtypes_of(agreement_.unsupported)).bytes();
    };
    const ProcessInfo own = describe_process(options_, *backend_, job_, memory, unsupported);
    const Bytes decision = job_.agree(MessageWriter().add(own).bytes(), compare_and_decide);
    MessageReader reader(decision);
    memory = limit_plan(std::move(memory), reader.take<std::uint64_t>());
    return exclude_types(options_.data, reader.take<std::vector<Dtype>>());
  }

  RunInfo make_launched_run_info(const RunPlan& plan, const MemoryPlan& memory) const {
    RunInfo info = make_run_info(options_, plan, *backend_, memory);
    info.machine.emplace_back("launcher", world_.launcher);
    info.machine.insert(info.machine.end(), agreement_.facts.begin(), agreement_.facts.end());
    info.notes.push_back(fmt::format("Launched by {}: {} processes on {} host{}", world_.launcher, world_.size,
                                     agreement_.hosts, agreement_.hosts == 1 ? "" : "s"));
    if (!choice_.no_gpu_reason.empty()) info.notes.push_back("Measured on the host: " + choice_.no_gpu_reason);
    info.notes.insert(info.notes.end(), world_.notes.begin(), world_.notes.end());
    for (const std::string& note : excluded_type_notes(agreement_.unsupported)) info.notes.push_back(note);
    info.warnings = agreement_.warnings;
    const auto backend_warnings = backend_->warnings();
    info.warnings.insert(info.warnings.end(), backend_warnings.begin(), backend_warnings.end());
    if (!choice_.unused_gpus_warning.empty()) info.warnings.push_back(choice_.unused_gpus_warning);
    return info;
  }

  const Options& options_;
  const World& world_;
  const BackendChoice& choice_;
  LaunchedJob& job_;
  CallWatchdog watched_call_;
  std::unique_ptr<Collective> collective_;
  std::unique_ptr<Backend> backend_;
  Agreement agreement_;  // set by agree_on_memory_and_types, in process 0 only
};

}  // namespace

JobResult run_launched(const Options& options, const World& world) {
  const SignalMask mask;
  // After a failure, the watchdog ends this process. It cannot abort the job, because it has not joined it yet.
  const CallWatchdog watched_call(no_progress_limit_s(options), [&](const Failure& failure) {
    print_stderr(options.program,
                 fmt::format("process {} of {} on {}: {}", world.rank, world.size, host_name(), failure.message));
  });
  const BackendChoice choice = watched_call(
      "looking for GPUs", [&] { return choose_backend(options, /*forks_follow=*/false, process_environment); });
  const auto collective = options.make_collective();
  require_group_sizes(options, *collective);

  LaunchedJob job(make_membership(options, world),
                  {.on_status = [&](const std::string& sentence) { print_stderr(options.program, sentence); },
                   .on_tick = throw_if_interrupted});
  try {
    return LaunchedProcess(options, world, choice, job).run();
  } catch (const std::exception& error) {
    if (dynamic_cast<const EnvironmentError*>(&error) && withdraw_before_start(job, error.what())) return {};
    job.abort_and_throw(error, job.with_rank_name(world.rank * options.ranks_per_process(), error.what()));
  }
}

}  // namespace busbw
