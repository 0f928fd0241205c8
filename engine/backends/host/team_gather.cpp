#include "backends/host/team_gather.hpp"

namespace busbw {

std::vector<Bytes> all_gather_bytes(Team& team, std::span<const std::byte> own_bytes) {
  MessageWriter joined;
  for (const Bytes& rank_bytes : team.gather(own_bytes)) joined.add(std::span<const std::byte>(rank_bytes));
  const Bytes all_bytes = team.broadcast(joined.bytes());
  MessageReader reader(all_bytes);
  std::vector<Bytes> bytes_by_rank;
  while (bytes_by_rank.size() < static_cast<std::size_t>(team.size())) bytes_by_rank.push_back(reader.take_bytes());
  return bytes_by_rank;
}

std::vector<int> world_ranks_of(const Team& world, Team& group) {
  std::vector<int> world_ranks;
  for (const Bytes& encoded_rank : all_gather_bytes(group, MessageWriter().add(world.rank()).bytes()))
    world_ranks.push_back(MessageReader(encoded_rank).take<int>());
  return world_ranks;
}

}  // namespace busbw
