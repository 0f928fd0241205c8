// Sends each rank's memory use to rank 0. In the message, a flag precedes each amount: whether it is known.
#include "run/memory_report.hpp"

#include <optional>

#include "values/message.hpp"

namespace busbw {
namespace {

Bytes pack_memory_use(const MemoryUse& use) {
  MessageWriter writer;
  for (const auto& amount : {use.context_bytes, use.library_bytes, use.buffer_bytes, use.collective_bytes})
    writer.add(amount.has_value()).add(amount.value_or(0));
  return writer.bytes();
}

std::optional<std::int64_t> read_amount(MessageReader& reader) {
  const bool is_known = reader.take<bool>();
  const auto bytes = reader.take<std::int64_t>();
  if (!is_known) return std::nullopt;
  return bytes;
}

}  // namespace

std::vector<RankMemory> gather_memory(Team& world, Communicator& communicator) {
  const auto messages = world.gather(pack_memory_use(communicator.memory().value_or(MemoryUse{})));
  std::vector<RankMemory> ranks;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    MessageReader reader(messages[rank]);
    RankMemory memory;
    memory.rank = static_cast<int>(rank);
    for (auto amount : {&RankMemory::context_bytes, &RankMemory::library_bytes, &RankMemory::buffer_bytes,
                        &RankMemory::collective_bytes})
      memory.*amount = read_amount(reader);
    ranks.push_back(memory);
  }
  return ranks;
}

}  // namespace busbw
