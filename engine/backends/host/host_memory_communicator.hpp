#pragma once
// Common base of communicators on memory that the CPU reads and writes.
#include <cstddef>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/faults.hpp"

namespace busbw {

/// Operations are done when their call returns, so `synchronize` does not wait.
class HostMemoryCommunicator : public Communicator {
 public:
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void begin_multi_step() override { faults_.begin_multi_step(); }
  void end_multi_step(std::span<std::byte> result, Dtype dtype) override;
  void synchronize() override {}
  void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) override;
  void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches&) override;
  void enter(Phase phase) override { faults_.enter(phase); }

 protected:
  /// `members`: job rank of each rank of the communicator. `rank`: this rank in the communicator.
  HostMemoryCommunicator(std::vector<int> members, int rank, std::span<const Fault> faults);

  /// Job rank of a rank of the communicator.
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  std::vector<int> members_;
  int rank_;
  RankFaults faults_;
};

/// Copies bytes. Does nothing if both addresses are equal.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace busbw
