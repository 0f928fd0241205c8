#include "run/memory_report.hpp"

#include "values/message.hpp"

namespace busbw {

std::vector<RankMemory> gather_memory(Team& world, Communicator& communicator) {
  const MemoryUse own_use = communicator.memory().value_or(MemoryUse{});
  std::vector<RankMemory> ranks;
  for (const Bytes& message : world.gather(MessageWriter().add(own_use).bytes())) {
    const auto use = MessageReader(message).take<MemoryUse>();
    ranks.push_back(
        {static_cast<int>(ranks.size()), use.context_bytes, use.library_bytes, use.buffer_bytes, use.collective_bytes});
  }
  return ranks;
}

}  // namespace busbw
