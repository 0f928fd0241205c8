#pragma once
// One rank's way through a run: meet the others, connect, and then case by case warm up, time, check, report.
#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Runs the plan as the rank that `world` says; the callbacks are called on rank 0 only. Throws Aborted when another
/// rank gave up.
void run_rank(const RunPlan& plan, Backend& backend, Team& world, const RunCallbacks& callbacks);

}  // namespace busbw
