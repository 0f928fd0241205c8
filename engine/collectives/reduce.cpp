// The root gets the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Reduce final : public Collective {
 public:
  Reduce() : Collective(facts::reduce) {}

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    const auto source = position.rank == position.root ? Segment::Source::reduced : Segment::Source::untouched;
    return {{.count = shape.recv_count, .source = source}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.reduce(call.send, call.recv, call.count, call.dtype, call.redop, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce(const CollectiveSettings&) { return std::make_unique<Reduce>(); }

}  // namespace busbw
