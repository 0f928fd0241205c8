#pragma once
// -M: memory use of every rank's device.
#include <vector>

#include "backends/backend.hpp"
#include "rendezvous/team/team.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Memory use of all ranks, by rank; on rank 0 only. All ranks call it.
std::vector<RankMemory> gather_memory(Team& world, Communicator& communicator);

}  // namespace busbw
