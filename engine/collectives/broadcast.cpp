// Every rank gets the root's data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Broadcast final : public Collective {
 public:
  Broadcast() : Collective(facts::broadcast) {}

  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return {{.count = shape.recv_count, .source_rank = position.root}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.broadcast(call.send, call.recv, call.count, call.dtype, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_broadcast(const CollectiveSettings&) { return std::make_unique<Broadcast>(); }

}  // namespace busbw
