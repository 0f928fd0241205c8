// Every rank sends an equal share of its data to every rank.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Alltoall final : public Collective {
 public:
  std::string_view name() const override { return "alltoall"; }
  bool in_place_defined() const override { return false; }

  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    const std::size_t share = share_of(count, element_bytes, ranks);
    return {.send_count = share * ranks, .recv_count = share * ranks, .param_count = share};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes * ranks),
            .bus_factor = others_share(ranks)};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int /*root*/) const override {
    return {{.count = shape.send_count, .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int ranks,
                             int /*root*/) const override {
    Segments segments = segments_from_every_rank(shape.param_count, ranks);
    for (Segment& segment : segments) segment.first = shape.param_count * rank;
    return segments;
  }
  int calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.alltoall(call.send, call.recv, call.count, call.dtype);
  }
};

}  // namespace

std::unique_ptr<Collective> make_alltoall(const CollectiveSettings&) { return std::make_unique<Alltoall>(); }

}  // namespace busbw
