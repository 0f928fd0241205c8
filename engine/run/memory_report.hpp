#pragma once
// Gathers the memory use of every rank's device, for the report of -M at the end of a run.
#include <vector>

#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Returns the memory use of all ranks, by rank, on rank 0, and an empty list on others. All ranks must call it.
std::vector<RankMemory> gather_memory(Team& world, Communicator& communicator);

}  // namespace busbw
