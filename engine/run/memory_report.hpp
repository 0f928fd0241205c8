#pragma once
// -M: where the memory of every rank's device went.
#include <vector>

#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// All ranks' memory, by rank; on rank 0 only. All ranks call it.
std::vector<RankMemory> gather_memory(Team& world, Communicator& communicator);

}  // namespace busbw
