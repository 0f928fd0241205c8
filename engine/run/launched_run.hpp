#pragma once
// A run of several processes that a launcher started, on one host or several. This process is one of them.
#include "options/options.hpp"
#include "rendezvous/world/world.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Joins the other processes, checks that all agree, and measures together with them. Process 0 writes the output.
/// Throws Error if the job cannot be formed; after that the result holds the outcome.
JobResult run_launched(const Options& options, const World& world);

}  // namespace busbw
