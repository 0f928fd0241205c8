// The root gets the data of all ranks, in rank order.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Gather final : public Collective {
 public:
  Gather() : Collective(facts::gather) {}

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    if (position.rank != position.root) return {{.count = shape.recv_count, .source = Segment::Source::untouched}};
    return segments_from_every_rank(shape.send_count, position.ranks);
  }
  int weighted_calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.gather(call.send, call.recv, call.count, call.dtype, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_gather(const CollectiveSettings&) { return std::make_unique<Gather>(); }

}  // namespace busbw
