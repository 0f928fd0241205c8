#pragma once
// All-gather over a team, for setup data before a communicator exists.
#include <span>
#include <vector>

#include "rendezvous/team/team.hpp"

namespace busbw {

/// Returns the bytes of every rank, in rank order, to every rank. All ranks of the team call it.
std::vector<Bytes> all_gather_bytes(Team& team, std::span<const std::byte> own_bytes);

/// Returns the world ranks of the ranks of `group`, in group order. All ranks of the group call it.
std::vector<int> world_ranks_of(const Team& world, Team& group);

}  // namespace busbw
