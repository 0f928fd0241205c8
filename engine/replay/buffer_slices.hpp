#pragma once
// Slices of a rank's buffers: each communicator uses its own one, if memory permits, as the buffers of a job differ.
#include <cstdint>
#include <map>
#include <optional>

#include "replay/matched_calls.hpp"

namespace busbw {

/// Bytes of each of a rank's two buffers, without guards.
struct SliceBytes {
  std::uint64_t min_bytes = 0;  // of the largest call of any rank
  std::uint64_t max_bytes = 0;  // if the communicators of each rank have their own slices
  /// The largest call: its rank and its first operation.
  int rank = 0;
  std::size_t operation = 0;
};

/// Bytes that a call sends, and that it receives.
std::pair<std::size_t, std::size_t> call_bytes(const ReplayProgram& program, int rank, const ReplayCall& call);

/// Bytes that the program needs.
SliceBytes slice_bytes(const MatchedCalls& calls);

/// Offset of each communicator's slice in the buffers of a rank. All are 0 if the slices exceed `available_bytes`.
std::map<int, std::size_t> slice_offsets(const MatchedCalls& calls, int rank, std::uint64_t available_bytes);

/// Bytes that a rank handles in a step: for each operation the larger of the bytes that it sends and receives. Maximum
/// over the ranks.
std::uint64_t step_bytes(const ReplayProgram& program);

}  // namespace busbw
