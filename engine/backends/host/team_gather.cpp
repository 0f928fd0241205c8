#include "backends/host/team_gather.hpp"

namespace busbw {

std::vector<Bytes> all_gather_bytes(Team& team, std::span<const std::byte> mine) {
  MessageWriter joined;
  for (const Bytes& part : team.gather(mine)) joined.add(std::span<const std::byte>(part));
  const Bytes all = team.broadcast(joined.bytes());
  MessageReader reader(all);
  std::vector<Bytes> parts;
  while (parts.size() < static_cast<std::size_t>(team.size())) parts.push_back(reader.take_bytes());
  return parts;
}

std::vector<int> world_ranks_of(const Team& world, Team& group) {
  std::vector<int> members;
  for (const Bytes& theirs : all_gather_bytes(group, MessageWriter().add(world.rank()).bytes()))
    members.push_back(MessageReader(theirs).take<int>());
  return members;
}

}  // namespace busbw
