#pragma once
// A run of which this process is one of several that a launcher has started, here or on other hosts.
#include "options/options.hpp"
#include "rendezvous/world/world.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Meets the others, makes sure that all are the same, and measures together. Process 0 writes the output. Throws Error
/// where the processes do not come together; after that the outcome says how it went.
JobResult run_launched(const Options& options, const World& world);

}  // namespace busbw
