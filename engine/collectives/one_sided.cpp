// Derives each rank's puts from the facts of the collective: which data each rank has for each other rank.
#include "collectives/one_sided.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collectives/forwarding_collective.hpp"
#include "collectives/registry.hpp"

namespace busbw {
namespace {

// Collectives with facts that determine the data from each rank to each other rank. The others reduce data, move it in
// several steps (hypercube), or have a setting for the amounts (alltoallv).
constexpr std::array kOneSided{&facts::all_gather, &facts::alltoall, &facts::broadcast,
                               &facts::gather,     &facts::scatter,  &facts::sendrecv};

const CollectiveFacts* find_facts(std::string_view collective) {
  const auto* const facts = std::ranges::find(kOneSided, collective, &CollectiveFacts::name);
  return facts == kOneSided.end() ? nullptr : *facts;
}

const CollectiveFacts& require_facts(const Collective& collective) {
  if (const CollectiveFacts* const facts = find_facts(collective.name())) return *facts;
  throw std::logic_error(fmt::format("make_one_sided: {} cannot run one-sided", collective.name()));
}

class OneSidedCollective final : public ForwardingCollective {
 public:
  OneSidedCollective(std::unique_ptr<Collective> inner, int contexts)
      : ForwardingCollective(*inner),
        owned_inner_(std::move(inner)),
        facts_(require_facts(*owned_inner_)),
        contexts_(contexts) {}

  void run(Communicator& communicator, const CollectiveCall& call) const override {
    if (call.count == 0) return;
    const int rank = communicator.rank();
    const int ranks = communicator.size();
    const auto share_bytes = static_cast<std::ptrdiff_t>(call.count * size_bytes(call.dtype));
    // In place, scatter's result is this rank's share of the send data. So the peer's `call.recv` lies `peer - rank`
    // shares further on in its buffer.
    const bool is_scatter = facts_.sends_shares && !facts_.receives_shares;
    const bool receives_in_send_data = is_scatter && call.recv == call.send + rank * share_bytes;
    std::vector<Put> puts;
    std::vector<AwaitedPut> awaited;
    for (int peer = 0; peer < ranks; ++peer) {
      // As Put requires, an address in this rank's buffer: the peer gets the data at the same offset of its own buffer.
      std::byte* destination = call.recv;
      if (facts_.receives_shares) destination += rank * share_bytes;
      if (receives_in_send_data) destination += (peer - rank) * share_bytes;
      const std::byte* const data = call.send + (facts_.sends_shares ? peer * share_bytes : 0);
      const bool is_in_its_place = peer == rank && data == destination;
      if (is_in_its_place) continue;
      const bool puts_data = sends(rank, peer, ranks, call.root);
      const bool gets_data = sends(peer, rank, ranks, call.root);
      for_each_chunk(rank, peer, call.count, [&](std::size_t first, std::size_t count, int context) {
        const auto offset = static_cast<std::ptrdiff_t>(first * size_bytes(call.dtype));
        if (puts_data) puts.push_back({peer, data + offset, destination + offset, count, context});
        if (gets_data) awaited.push_back({peer, context});
      });
    }
    communicator.put(puts, awaited, call.dtype);
  }

 private:
  /// Calls `on_chunk(first, count, context)` for each chunk of the `count` elements between two ranks. Both ranks
  /// compute the same chunks. In a ring, 10 elements on 4 contexts are chunks of 3, 3, 2 and 2 elements.
  template <class OnChunk>
  void for_each_chunk(int rank, int peer, std::size_t count, const OnChunk& on_chunk) const {
    if (!is_ring()) return on_chunk(std::size_t{0}, count, (rank + peer) % contexts_);
    const auto contexts = static_cast<std::size_t>(contexts_);
    std::size_t first = 0;
    for (std::size_t context = 0; context < contexts && first < count; ++context) {
      const std::size_t chunk = count / contexts + (context < count % contexts ? 1 : 0);
      on_chunk(first, chunk, static_cast<int>(context));
      first += chunk;
    }
  }

  /// True for sendrecv, in which each rank has data for the next one only.
  bool is_ring() const { return !facts_.has_root && !facts_.receives_shares; }

  /// True if rank `from` has data for rank `to`.
  bool sends(int from, int to, int ranks, int root) const {
    if (facts_.only_root_sends) return from == root;
    if (facts_.only_root_receives) return to == root;
    return !is_ring() || to == (from + 1) % ranks;
  }

  std::unique_ptr<Collective> owned_inner_;
  const CollectiveFacts& facts_;
  int contexts_;
};

}  // namespace

bool can_run_one_sided(std::string_view collective) { return find_facts(collective) != nullptr; }

std::string one_sided_collectives_text() {
  std::vector<std::string_view> names;
  for (const CollectiveFacts* const facts : kOneSided) names.push_back(facts->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::unique_ptr<Collective> make_one_sided(std::unique_ptr<Collective> collective, int contexts) {
  return std::make_unique<OneSidedCollective>(std::move(collective), contexts);
}

}  // namespace busbw
