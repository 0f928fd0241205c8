#pragma once
// Effects of --fault on the rank that the fault names. rank_runner applies them, so that they work on every backend.
#include <cstdint>
#include <memory>
#include <span>

#include "collectives/collective.hpp"
#include "measure/checker.hpp"
#include "options/fault.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Wraps `world` in a team that kills the process, or hangs, when the rank enters the phase of the fault.
std::unique_ptr<Team> make_faulty_team(Team& world, const Fault& fault);

/// Wraps `collective` in one that sleeps before each operation. `collective` must outlive the result.
std::unique_ptr<Collective> make_delayed_collective(const Collective& collective, std::uint64_t delay_us);

/// Changes the rank's checked result, which begins at `recv`, if the fault is a flip or an overrun. Does nothing and
/// returns false if the rank has no result, or if the result does not contain the fault's element and bit.
bool corrupt_result(const Fault& fault, Communicator& communicator, const RankCase& rank_case, std::byte* recv);

/// Throws UsageError if the fault must change a checked result and `has_changed_result` is false: the run would seem to
/// show that the check misses the fault. Call it at the end of a run with checks.
void require_effect(const Fault& fault, bool has_changed_result);

// For comm_ops, which has no Collective and no RankCase:

/// Sleeps for the delay of the fault.
void delay_call(const Fault& fault);

/// Flips the bit that the fault names. Does nothing and returns false if `result` has no such element or bit.
bool flip_bit(const Fault& fault, std::span<std::int32_t> result);

}  // namespace busbw
