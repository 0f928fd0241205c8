#pragma once
// Slices of a rank's buffers in a replay. Each communicator uses its own slice, because the communicators of a real job
// use different buffers. If the memory is too small, all communicators use the start of the buffers.
#include <cstdint>
#include <map>
#include <utility>

#include "replay/matched_calls.hpp"

namespace busbw {

/// Size of each of a rank's two buffers (send and receive), without guards.
struct SliceBytes {
  std::uint64_t min_bytes = 0;  // enough if all communicators share one slice: the largest call of any rank
  std::uint64_t max_bytes = 0;  // enough if each communicator has its own slice: the largest sum of any rank
  /// The call that decides `min_bytes`, for messages.
  int largest_call_rank = 0;
  std::size_t largest_call_operation = 0;  // the first operation of the call
};

/// Bytes that a call sends, and bytes that it receives.
std::pair<std::size_t, std::size_t> call_bytes(const ReplayProgram& program, int rank, const ReplayCall& call);

SliceBytes slice_bytes(const MatchedCalls& calls);

/// Offset of each communicator's slice in the buffers of a rank. All are 0 if the slices exceed `available_bytes`.
std::map<int, std::size_t> slice_offsets(const MatchedCalls& calls, int rank, std::uint64_t available_bytes);

/// Bytes that a rank handles in a step, as the maximum over the ranks. Each operation counts with the larger of its
/// sent and received bytes.
std::uint64_t step_bytes(const ReplayProgram& program);

}  // namespace busbw
