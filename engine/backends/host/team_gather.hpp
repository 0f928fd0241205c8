#pragma once
// What every member of a team knows, known to all of them.
#include <span>
#include <vector>

#include "rendezvous/team/team.hpp"

namespace busbw {

/// Every member's bytes, in rank order, at every member. Called by all members.
std::vector<Bytes> all_gather_bytes(Team& team, std::span<const std::byte> mine);

/// The world ranks of the members of `group`, in its order. Called by all of them.
std::vector<int> world_ranks_of(const Team& world, Team& group);

}  // namespace busbw
