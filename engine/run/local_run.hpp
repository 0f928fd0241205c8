#pragma once
// A run in which this process starts all ranks, as threads and as processes that it forks. If a rank fails or is lost,
// watch/job_runner aborts the job and ends the ranks. Then the process of rank 0 calls Reporter::finish.
#include "options/options.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Measures. Throws errors that occur before the first rank starts. The result holds later errors and failures. If
/// ranks were abandoned, because they did not end after an abort, the process ends with the result's exit code instead.
JobResult run_local(const Options& options);

}  // namespace busbw
