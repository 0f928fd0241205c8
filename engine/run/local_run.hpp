#pragma once
// A run in which this process starts all ranks, as threads and as processes that it forks.
#include "options/options.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Measures. Throws Error before the first rank starts; after that the result holds the outcome.
JobResult run_local(const Options& options);

}  // namespace busbw
