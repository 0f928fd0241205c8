// Every rank gets its share of the root's data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Scatter final : public Collective {
 public:
  Scatter() : Collective(facts::scatter) {}

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return {{.count = shape.recv_count, .source_rank = position.root, .first = shape.recv_count * position.rank}};
  }
  int weighted_calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.scatter(call.send, call.recv, call.count, call.dtype, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_scatter(const CollectiveSettings&) { return std::make_unique<Scatter>(); }

}  // namespace busbw
