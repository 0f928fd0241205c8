// Every rank gets the data of all ranks, in rank order.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class AllGather final : public Collective {
 public:
  AllGather() : Collective(facts::all_gather) {}
  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return segments_from_every_rank(shape.send_count, position.ranks);
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.all_gather(call.send, call.recv, call.count, call.dtype);
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_gather(const CollectiveSettings&) { return std::make_unique<AllGather>(); }

}  // namespace busbw
