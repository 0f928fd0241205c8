// Every rank gets the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class AllReduce final : public Collective {
 public:
  std::string_view name() const override { return "all_reduce"; }
  bool reduces() const override { return true; }

  Shape shape(std::size_t count, std::size_t /*element_bytes*/, int /*ranks*/) const override {
    return {.send_count = count, .recv_count = count, .param_count = count};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes),
            .bus_factor = 2 * others_share(ranks)};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int /*root*/) const override {
    return {{.count = shape.send_count, .source = Segment::Source::contribution, .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int /*rank*/, int /*ranks*/,
                             int /*root*/) const override {
    return {{.count = shape.recv_count, .source = Segment::Source::reduced}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.all_reduce(call.send, call.recv, call.count, call.dtype, call.redop);
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_reduce(const CollectiveSettings&) { return std::make_unique<AllReduce>(); }

}  // namespace busbw
