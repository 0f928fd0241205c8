// Every rank gets its share of the root's data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Scatter final : public Collective {
 public:
  std::string_view name() const override { return "scatter"; }
  bool has_root() const override { return true; }

  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    const std::size_t share = share_of(count, element_bytes, ranks);
    return {.send_count = share * ranks, .recv_count = share, .param_count = share, .recv_inplace_offset = share};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes * ranks),
            .bus_factor = others_share(ranks)};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int root) const override {
    if (rank != root) return {};
    return {{.count = shape.send_count, .source_rank = root}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                             int root) const override {
    return {{.count = shape.recv_count, .source_rank = root, .first = shape.recv_count * rank}};
  }
  int calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.scatter(call.send, call.recv, call.count, call.dtype, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_scatter(const CollectiveSettings&) { return std::make_unique<Scatter>(); }

}  // namespace busbw
