#include "run/memory_report.hpp"

#include <doctest/doctest.h>

#include "support_communicator.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

/// Reports two figures, and a third one on odd ranks.
class TellingCommunicator final : public IdleCommunicator {
 public:
  TellingCommunicator(int rank, int size) : IdleCommunicator(rank, size, 8) {}
  std::optional<MemoryUse> memory() override {
    MemoryUse use;
    use.library_bytes = 1000 + rank();
    use.buffer_bytes = -rank();
    if (rank() % 2 == 1) use.collective_bytes = 7;
    return use;
  }
};

}  // namespace

TEST_CASE("gather_memory: rank 0 gets every rank's figures; missing ones stay missing") {
  const std::string complaints = run_threads(3, [](Team& world) -> std::string {
    TellingCommunicator communicator(world.rank(), world.size());
    const auto ranks = gather_memory(world, communicator);
    if (world.rank() > 0) return ranks.empty() ? "" : "only rank 0 is told";
    if (ranks.size() != 3) return "not all ranks";
    for (int rank = 0; rank < 3; ++rank) {
      const RankMemory& memory = ranks[static_cast<std::size_t>(rank)];
      if (memory.rank != rank || memory.library_bytes != 1000 + rank || memory.buffer_bytes != -rank) return "shares";
      if (memory.context_bytes) return "made up";
      if (memory.collective_bytes.has_value() != (rank == 1)) return "missing";
    }
    return "";
  });
  CHECK(complaints == "");
}

TEST_CASE("gather_memory: a rank without figures has none") {
  const std::string complaints = run_threads(2, [](Team& world) -> std::string {
    IdleCommunicator communicator(world.rank(), world.size(), 8);
    for (const RankMemory& memory : gather_memory(world, communicator))
      if (memory.context_bytes || memory.library_bytes || memory.buffer_bytes || memory.collective_bytes)
        return "made up";
    return "";
  });
  CHECK(complaints == "");
}
