#pragma once
// A run whose ranks this process starts all: threads of its own, and processes that it forks.
#include "options/options.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Measures. Throws Error before the first rank is started; after that the outcome says how it went.
JobResult run_local(const Options& options);

}  // namespace busbw
