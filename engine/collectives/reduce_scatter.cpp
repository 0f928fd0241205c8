// Every rank gets its share of the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class ReduceScatter final : public Collective {
 public:
  std::string_view name() const override { return "reduce_scatter"; }
  bool reduces() const override { return true; }

  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    const std::size_t share = share_of(count, element_bytes, ranks);
    return {.send_count = share * ranks, .recv_count = share, .param_count = share, .recv_inplace_offset = share};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes * ranks),
            .bus_factor = others_share(ranks)};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int /*root*/) const override {
    return {{.count = shape.send_count, .source = Segment::Source::contribution, .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                             int /*root*/) const override {
    return {{.count = shape.recv_count, .source = Segment::Source::reduced, .first = shape.recv_count * rank}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.reduce_scatter(call.send, call.recv, call.count, call.dtype, call.redop);
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce_scatter(const CollectiveSettings&) { return std::make_unique<ReduceScatter>(); }

}  // namespace busbw
