#pragma once
// Runs one rank: joins the others, connects, then per case warms up, measures, checks and reports. watch/job_runner
// calls it in a thread of the rank. A rank that fails reports its failure to the job (RunCallbacks::failed) before it
// releases its communicator. Other ranks then unwind with JobAborted.
#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Runs the plan as rank `world.rank()` of the job. Calls the begin, rows and memory callbacks on rank 0. Throws
/// JobAborted if another rank failed, and any exception that this rank's own failure causes.
void run_rank(const RunPlan& plan, Backend& backend, Team& world, const RunCallbacks& callbacks);

}  // namespace busbw
