// Every rank gets the root's data.
#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Broadcast final : public Collective {
 public:
  std::string_view name() const override { return "broadcast"; }
  bool has_root() const override { return true; }

  Shape shape(std::size_t count, std::size_t /*element_bytes*/, int /*ranks*/) const override {
    return {.send_count = count, .recv_count = count, .param_count = count};
  }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int /*ranks*/) const override {
    return {.algbw_bytes = static_cast<double>(shape.param_count * element_bytes), .bus_factor = 1};
  }
  Segments send_segments(const Shape& shape, std::size_t /*element_bytes*/, int rank, int /*ranks*/,
                         int root) const override {
    if (rank != root) return {};
    return {{.count = shape.send_count, .source_rank = root}};
  }
  Segments expected_segments(const Shape& shape, std::size_t /*element_bytes*/, int /*rank*/, int /*ranks*/,
                             int root) const override {
    return {{.count = shape.recv_count, .source_rank = root}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.broadcast(call.send, call.recv, call.count, call.dtype, call.root);
  }
};

}  // namespace

std::unique_ptr<Collective> make_broadcast(const CollectiveSettings&) { return std::make_unique<Broadcast>(); }

}  // namespace busbw
