// Every rank gets its share of the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class ReduceScatter final : public Collective {
 public:
  ReduceScatter() : Collective(facts::reduce_scatter) {}

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return {{.count = shape.recv_count, .source = Segment::Source::reduced, .first = shape.recv_count * position.rank}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.reduce_scatter(call.send, call.recv, call.count, call.dtype, call.redop);
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce_scatter(const CollectiveSettings&) { return std::make_unique<ReduceScatter>(); }

}  // namespace busbw
