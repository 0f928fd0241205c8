#pragma once
// Checks the calls of a replay program (-c), equal ones only once.
#include <cstdint>
#include <functional>
#include <string>

#include "measure/checker.hpp"
#include "replay/matched_calls.hpp"
#include "replay/replay_communicators.hpp"

namespace busbw {

/// Changes a result before it is verified: fault injection.
using ResultChange = std::function<void(Communicator&, const RankCase&, std::byte* recv)>;

/// Runs and checks MatchedCalls::distinct_calls. All ranks of `world` call this function. Returns the wrong elements of
/// this rank. `seed` is the same on all ranks, and new for each check.
RankCheckResult check_calls(const MatchedCalls& calls, const ReplayCommunicators& communicators, Team& world,
                            std::uint64_t seed, const ResultChange& change_result);

/// Returns "exact", or the ReductionValues::exactness of the first call that is not checked exactly.
std::string step_exactness(const MatchedCalls& calls);

}  // namespace busbw
