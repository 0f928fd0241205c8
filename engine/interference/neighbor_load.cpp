// Loads that a rank runs alone, described as collectives: a matrix product and a copy.
#include "interference/neighbor_load.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace busbw {
namespace {

// Order (rows and columns) of the multiplied matrix. One product takes about 0.5 ms on a data-center GPU, and about
// 0.2 ms on a core of a processor.
constexpr std::size_t kDeviceOrder = 1024;
constexpr std::size_t kHostOrder = 128;
constexpr std::uint64_t kCopyBytes = std::uint64_t{64} << 20;  // more than the last-level cache of most GPUs

/// Facts of an operation that each rank does alone.
constexpr CollectiveFacts local_facts(std::string_view name) {
  return {.name = name, .bus_factor = "", .input = "whole", .output = "whole", .redop = "never"};
}
constexpr CollectiveFacts kMatmulFacts = local_facts("matmul");
constexpr CollectiveFacts kCopyFacts = local_facts("copy");

class Matmul final : public Collective {
 public:
  Matmul() : Collective(kMatmulFacts) {}
  /// The product is not checked: it moves no data.
  Segments expected_segments(const Shape&, const RankPosition&) const override { return {}; }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const bool is_on_device = communicator.timestamps() != nullptr;
    communicator.compute_matrix_square(reinterpret_cast<float*>(call.recv), reinterpret_cast<const float*>(call.send),
                                       is_on_device ? kDeviceOrder : kHostOrder);
  }
};

class Copy final : public Collective {
 public:
  Copy() : Collective(kCopyFacts) {}
  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return {{.count = shape.recv_count, .source_rank = position.rank}};
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.copy(call.recv, call.send, call.count * size_bytes(call.dtype));
  }
};

}  // namespace

std::optional<NeighborLoad> make_local_load(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (lower == kMatmulLoad)
    return NeighborLoad{.collective = std::make_shared<Matmul>(),
                        .bytes = kDeviceOrder * kDeviceOrder * sizeof(float),  // enough for kHostOrder, too
                        .is_local = true};
  if (lower == kCopyLoad)
    return NeighborLoad{.collective = std::make_shared<Copy>(), .bytes = kCopyBytes, .is_local = true};
  return std::nullopt;
}

}  // namespace busbw
