// The root gets the reduction of all ranks' data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Reduce final : public Collective {
 public:
  std::string_view name() const override { return "reduce"; }
  bool reduces() const override { return true; }
  bool has_root() const override { return true; }

  Shape shape(std::size_t count, std::size_t /*element_bytes*/, int /*ranks*/) const override {
    return {.send_count = count, .recv_count = count, .param_count = count};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int /*ranks*/) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes), .bus_factor = 1};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int /*root*/) const override {
    return {{.count = shape.send_count, .source = Segment::Source::contribution, .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                             int root) const override {
    const auto source = rank == root ? Segment::Source::reduced : Segment::Source::untouched;
    return {{.count = shape.recv_count, .source = source}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.reduce(call.send, call.recv, call.count, call.dtype, call.redop, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce(const CollectiveSettings&) { return std::make_unique<Reduce>(); }

}  // namespace busbw
