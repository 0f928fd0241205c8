// A ring of point-to-point messages: every rank sends its data to the next rank and receives from the previous one.
// With --ping-pong, pairs of ranks (0 and 1, 2 and 3, ...) send a message there and back, and the time is half the
// round trip.
#include <fmt/format.h>

#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Sendrecv : public Collective {
 public:
  Sendrecv() : Collective(facts::sendrecv) {}
  bool in_place_defined() const override { return false; }
  std::optional<int> max_peers() const override { return 2; }
  bool synchronizes_all_ranks() const override { return false; }  // synchronizes neighbors only

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    const int previous = (position.rank - 1 + position.ranks) % position.ranks;
    return {{.count = shape.recv_count, .source_rank = previous}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const int ranks = communicator.size();
    const int next = (communicator.rank() + 1) % ranks;
    const int previous = (communicator.rank() - 1 + ranks) % ranks;
    const Transfer send = make_send(next, call.send, call.count);
    const Transfer recv{previous, call.recv, call.count};
    communicator.exchange({&send, 1}, {&recv, 1}, call.dtype);
  }
};

class PingPong final : public Sendrecv {
 public:
  std::string rank_count_error(int ranks) const override {
    if (ranks % 2 == 0) return {};
    return fmt::format("--ping-pong: needs an even number of ranks, got {}", ranks);
  }
  int operations_per_run() const override { return 2; }
  int weighted_calls_per_run(int /*ranks*/) const override { return 2; }

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return {{.count = shape.recv_count, .source_rank = peer_of(position.rank)}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const int peer = peer_of(communicator.rank());
    const Transfer send = make_send(peer, call.send, call.count);
    const Transfer recv{peer, call.recv, call.count};
    const bool sends_first = communicator.rank() < peer;
    if (sends_first) communicator.exchange({&send, 1}, {}, call.dtype);
    communicator.exchange({}, {&recv, 1}, call.dtype);
    if (!sends_first) communicator.exchange({&send, 1}, {}, call.dtype);
  }

 private:
  static int peer_of(int rank) { return rank ^ 1; }  // 0 and 1, 2 and 3, ...
};

}  // namespace

std::unique_ptr<Collective> make_sendrecv(const CollectiveSettings& settings) {
  if (settings.ping_pong) return std::make_unique<PingPong>();
  return std::make_unique<Sendrecv>();
}

}  // namespace busbw
