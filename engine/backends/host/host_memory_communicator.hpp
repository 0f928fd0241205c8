#pragma once
// Common base of the communicators of the host backend.
#include <cstddef>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "verify/host_data.hpp"

namespace busbw {

/// Copies bytes. The ranges must be equal or disjoint.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// Communicator of ranks with buffers in ordinary memory. Implements copy, fill and compare; derived classes implement
/// the collectives. Operations are done when their call returns, so `synchronize` does not wait.
class HostMemoryCommunicator : public Communicator {
 public:
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }

  void compute_matrix_square(float* product, const float* matrix, std::size_t order) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { copy_bytes(to, from, bytes); }
  void synchronize() override {}
  void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) override {
    fill_host(memory, stream, first, elements);
  }
  void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches& mismatches) override {
    compare_host(memory, stream, first, elements, index_base, mismatches);
  }

 protected:
  /// `world_ranks`: world rank of each rank of the communicator. `rank`: this rank in the communicator.
  HostMemoryCommunicator(std::vector<int> world_ranks, int rank) : world_ranks_(std::move(world_ranks)), rank_(rank) {}

  /// World rank of a rank of the communicator.
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<int> world_ranks_;
  int rank_;
};

}  // namespace busbw
