#pragma once
// Measures a replay program on one rank: checks its calls, then times its step.
#include <optional>
#include <vector>

#include "backends/backend.hpp"
#include "run/reporter.hpp"
#include "run/run_plan.hpp"

namespace busbw {

/// Connects the program's communicators and measures its step; all ranks of `world` call it. `fault`: of this rank.
/// `ranks`: all ranks of the job, on rank 0. Rank 0 passes the rows to `reporter`.
void run_replay(const RunPlan& plan, Backend& backend, Team& world, Communicator& first,
                const std::optional<Fault>& fault, const std::vector<RankInfo>& ranks, Reporter* reporter);

}  // namespace busbw
