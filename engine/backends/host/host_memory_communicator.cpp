#include "backends/host/host_memory_communicator.hpp"

#include <cstring>
#include <utility>

#include "verify/host_data.hpp"

namespace busbw {

HostMemoryCommunicator::HostMemoryCommunicator(std::vector<int> world_ranks, int rank, std::span<const Fault> faults)
    : world_ranks_(std::move(world_ranks)), rank_(rank), faults_(faults, world_rank(rank)) {}

void HostMemoryCommunicator::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_bytes(to, from, bytes);
}

void HostMemoryCommunicator::end_multi_step(std::span<std::byte> result, Dtype dtype) {
  faults_.end_multi_step();
  faults_.after_operation(result, size_bytes(dtype));
}

void HostMemoryCommunicator::fill(std::byte* memory, const DataStream& stream, std::uint64_t first,
                                  std::size_t elements) {
  fill_host(memory, stream, first, elements);
}

void HostMemoryCommunicator::compare(const std::byte* memory, const DataStream& stream, std::uint64_t first,
                                     std::size_t elements, std::uint64_t index_base, Mismatches& mismatches) {
  compare_host(memory, stream, first, elements, index_base, mismatches);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace busbw
