#pragma once
// Collectives of a team on bytes and ranks.
#include <span>
#include <vector>

#include "rendezvous/team/team.hpp"

namespace busbw {

/// Gathers every member's bytes, in rank order, at every member. All members call it.
std::vector<Bytes> all_gather_bytes(Team& team, std::span<const std::byte> mine);

/// Job ranks of the members of `group`, in group order. All members of the group call it.
std::vector<int> world_ranks_of(const Team& world, Team& group);

}  // namespace busbw
