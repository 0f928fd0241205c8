#pragma once
// Steps that local_run and launched_run share: time limits, the plan and the outputs before the ranks start, and the
// message of an early end.
#include <string>

#include "backends/backend.hpp"
#include "options/options.hpp"
#include "rendezvous/team/job.hpp"
#include "run/memory_plan.hpp"
#include "run/reporter.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Limit in seconds for a job without progress: -T, or 600. Infinite for -T 0.
double no_progress_limit_s(const Options& options);

/// Throws UsageError if a group has a number of ranks with which the collective cannot run.
void require_group_sizes(const Options& options, const Collective& collective);

/// Throws if the backend cannot run the program that a replay measures: EnvironmentError for an element type,
/// UsageError for the order of the operations. Does nothing in other runs.
void require_replayable(const Options& options, const Backend& backend);

/// Plans the memory of `ranks` ranks on this machine. Throws EnvironmentError if no size fits; for a replay, the
/// message names the largest operation.
MemoryPlan plan_run_memory(const Options& options, const Backend& backend, int ranks);

/// Information about the run for the header and the record. The ranks are added later.
RunInfo make_run_info(const Options& options, const RunPlan& plan, const Backend& backend, const MemoryPlan& memory);

/// Makes the plan of the job for sizes up to `max_bytes` and the types of `data`; both may be less than requested.
/// `collective` must outlive the plan.
RunPlan make_plan(const Options& options, const DataChoice& data, const Collective& collective,
                  std::uint64_t max_bytes);

/// Opens the outputs of the run. Removes created files if a later one cannot be created.
void open_sinks(const Options& options, const Job& job, Reporter& reporter);

/// Prints `message`, the reason for an early end, on stderr. Prints nothing if the message is empty, or if `exit_code`
/// is output_closed.
void print_early_end(const Options& options, const std::string& message, int exit_code);

}  // namespace busbw
