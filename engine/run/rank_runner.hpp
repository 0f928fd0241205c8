#pragma once
// Runs one rank: joins the other ranks, connects, then per case warms up, measures, checks and reports.
// watch/job_runner calls it in a thread of the rank.
#include "backends/backend.hpp"
#include "rendezvous/team/job.hpp"
#include "run/reporter.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Runs the plan as `rank` of the job. Rank 0 passes its rows to `reporter`, which may be null for other ranks. Throws
/// JobAborted if another rank failed, and any exception of this rank. Reports that exception to the job first, and then
/// releases the communicator, because the release may make other ranks fail.
void run_rank(const RunPlan& plan, Backend& backend, Job& job, int rank, Reporter* reporter);

}  // namespace busbw
