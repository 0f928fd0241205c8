// An all-gather in log2(ranks) steps. In step k, two ranks that differ only in bit k of their number exchange all
// shares that they hold.
#include "collectives/registry.hpp"

#include <fmt/format.h>

#include <bit>

namespace busbw {
namespace {

class Hypercube final : public Collective {
 public:
  Hypercube() : Collective(facts::hypercube) {}
  std::string_view no_redop_name() const override { return ""; }
  std::string rank_count_error(int ranks) const override {
    if (std::has_single_bit(static_cast<unsigned>(ranks))) return {};
    return fmt::format("nRanks {} is not a power of 2", ranks);
  }

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return segments_from_every_rank(shape.send_count, position.ranks);
  }
  /// A copy, and an exchange in each step.
  int weighted_calls_per_run(int ranks) const override { return 1 + std::countr_zero(static_cast<unsigned>(ranks)); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const std::size_t share_bytes = call.count * size_bytes(call.dtype);
    const int rank = communicator.rank();
    std::byte* const own_share = call.recv + rank * share_bytes;
    if (own_share != call.send) communicator.copy(own_share, call.send, share_bytes);
    for (int bit = 1; bit < communicator.size(); bit *= 2) {
      // Before this step, this rank and its peer hold `bit` shares each. Example with bit 2: rank 5 holds the shares 4
      // and 5, its peer 7 holds 6 and 7.
      const int first_own_share = rank & ~(bit - 1);
      const int first_peer_share = first_own_share ^ bit;
      const std::size_t count = call.count * bit;
      const int peer = rank ^ bit;
      const Transfer send{peer, call.recv + first_own_share * share_bytes, count};
      const Transfer recv{peer, call.recv + first_peer_share * share_bytes, count};
      communicator.exchange({&send, 1}, {&recv, 1}, call.dtype);
    }
  }
};

}  // namespace

std::unique_ptr<Collective> make_hypercube(const CollectiveSettings&) { return std::make_unique<Hypercube>(); }

}  // namespace busbw
