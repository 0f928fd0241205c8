// Computes the sizes of slices from the calls of each rank, and places the slices one after the other.
#include "replay/buffer_slices.hpp"

#include <algorithm>

namespace busbw {
namespace {

constexpr std::size_t kAlignmentBytes = 4096;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

/// Sizes of the slices in the buffers of a rank, by communicator.
std::map<int, std::size_t> slice_sizes(const MatchedCalls& calls, int rank) {
  std::map<int, std::size_t> sizes;
  for (const ReplayCall& call : calls.of_rank(rank)) {
    const auto [sent, received] = call_bytes(calls.program(), rank, call);
    auto& size = sizes[call.communicator];
    size = std::max({size, aligned(sent), aligned(received)});
  }
  return sizes;
}

}  // namespace

std::pair<std::size_t, std::size_t> call_bytes(const ReplayProgram& program, int rank, const ReplayCall& call) {
  std::pair<std::size_t, std::size_t> bytes;
  for (const std::size_t index : call.operations) {
    const ReplayOperation& operation = program.operations[static_cast<std::size_t>(rank)][index];
    bytes.first += program.sent_bytes(operation);
    bytes.second += program.received_bytes(operation);
  }
  return bytes;
}

SliceBytes slice_bytes(const MatchedCalls& calls) {
  SliceBytes result;
  for (int rank = 0; rank < calls.program().ranks(); ++rank) {
    std::uint64_t all_bytes = 0;
    for (const auto& [communicator, size] : slice_sizes(calls, rank)) all_bytes += size;
    result.max_bytes = std::max(result.max_bytes, all_bytes);
    for (const ReplayCall& call : calls.of_rank(rank)) {
      const auto [sent, received] = call_bytes(calls.program(), rank, call);
      const std::size_t slice = aligned(std::max(sent, received));
      if (slice <= result.min_bytes) continue;
      result.min_bytes = slice;
      result.largest_call_rank = rank;
      result.largest_call_operation = call.operations.front();
    }
  }
  return result;
}

std::map<int, std::size_t> slice_offsets(const MatchedCalls& calls, int rank, std::uint64_t available_bytes) {
  std::map<int, std::size_t> offsets;
  std::size_t end = 0;
  for (const auto& [communicator, size] : slice_sizes(calls, rank)) {
    offsets[communicator] = end;
    end += size;
  }
  if (end > available_bytes)
    for (auto& [communicator, offset] : offsets) offset = 0;
  return offsets;
}

std::uint64_t step_bytes(const ReplayProgram& program) {
  std::uint64_t max_bytes = 0;
  for (const auto& operations : program.operations) {
    std::uint64_t bytes = 0;
    for (const ReplayOperation& operation : operations)
      bytes += std::max(program.sent_bytes(operation), program.received_bytes(operation));
    max_bytes = std::max(max_bytes, bytes);
  }
  return max_bytes;
}

}  // namespace busbw
