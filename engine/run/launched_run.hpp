#pragma once
// A run of several processes that a launcher started, on one host or several. This process is one of them.
// If a rank of this process is lost, watch/job_runner aborts the job. If another process is lost, process 0 detects it
// (rendezvous/store/process_tracker), and rendezvous/launched_job aborts the job here. In both cases job_runner ends
// the local ranks and calls the run's finish callback, which in process 0 is Reporter::finish.
#include "options/options.hpp"
#include "rendezvous/world/world.hpp"
#include "watch/job_runner.hpp"

namespace busbw {

/// Joins the other processes, checks that all agree, and measures together with them. Process 0 writes the output.
/// Throws Error if the job cannot be formed or the processes are incompatible. Otherwise the result holds the outcome,
/// a failure included. If ranks were abandoned, because they did not end after an abort, the process ends with the
/// result's exit code instead.
JobResult run_launched(const Options& options, const World& world);

}  // namespace busbw
