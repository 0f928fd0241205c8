#pragma once
// Runs one rank: joins the others, connects, then per case warms up, measures, checks and reports.
#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Runs the plan as the rank of `world`. The begin, rows and memory callbacks are called on rank 0 only. Throws
/// JobAborted if another rank failed.
void run_rank(const RunPlan& plan, Backend& backend, Team& world, const RunCallbacks& callbacks);

}  // namespace busbw
