// Every rank gets the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class AllReduce final : public Collective {
 public:
  AllReduce() : Collective(facts::all_reduce) {}

  Segments expected_segments(const Shape& shape, const RankPosition&) const override {
    return {{.count = shape.recv_count, .source = Segment::Source::reduced}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.all_reduce(call.send, call.recv, call.count, call.dtype, call.redop);
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_reduce(const CollectiveSettings&) { return std::make_unique<AllReduce>(); }

}  // namespace busbw
