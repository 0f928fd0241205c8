// Every rank sends an equal share of its data to every rank.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Alltoall final : public Collective {
 public:
  Alltoall() : Collective(facts::alltoall) {}
  bool in_place_defined() const override { return false; }

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    Segments segments = segments_from_every_rank(shape.param_count, position.ranks);
    for (Segment& segment : segments) segment.first = shape.param_count * position.rank;  // this rank's share
    return segments;
  }
  int weighted_calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.alltoall(call.send, call.recv, call.count, call.dtype);
  }
};

}  // namespace

std::unique_ptr<Collective> make_alltoall(const CollectiveSettings&) { return std::make_unique<Alltoall>(); }

}  // namespace busbw
