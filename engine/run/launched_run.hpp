#pragma once
// A run of several processes that a launcher started, on one host or several. This process is one of them.
// docs/architecture.md describes what happens if a rank is lost.
#include "options/options.hpp"
#include "rendezvous/world/world.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Joins the other processes, checks that their settings agree, and measures with them. Process 0 writes the output.
/// Throws Error if the job cannot be formed or the processes are incompatible. Otherwise the result holds the outcome,
/// a failure included. If ranks were abandoned, because they did not end after an abort, the process ends with the
/// result's exit code instead.
JobResult run_launched(const Options& options, const World& world);

}  // namespace busbw
