#pragma once
// A run in which this process starts all ranks, as threads and as processes that it forks.
// If a rank fails or is lost, watch/job_runner aborts the job, ends the ranks and calls Reporter::finish.
#include "options/options.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Measures. Throws Error before the first rank starts; after that the result holds the outcome, a failure included.
/// Does not return if ranks were abandoned: the process then ends with the result's exit code.
JobResult run_local(const Options& options);

}  // namespace busbw
