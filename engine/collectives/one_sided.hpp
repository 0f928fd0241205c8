#pragma once
// Collectives that ranks run by writing into each other's receive buffers (-H), instead of a call that all ranks join.
#include <memory>
#include <string>
#include <string_view>

#include "collectives/collective.hpp"

namespace busbw {

/// True if the collective of this name can run one-sided.
bool can_run_one_sided(std::string_view collective);

/// Names of all collectives that can: "all_gather, alltoall, ...".
std::string one_sided_collectives_text();

/// Makes the one-sided form of a collective for which can_run_one_sided is true. Its communicators must support puts.
/// It does not wait until a peer's receive buffer may be overwritten: between operations with different data, ranks
/// need a barrier. `contexts`: number of NCCL's contexts, each of which orders its puts. As in nccl-tests, sendrecv
/// divides its data among them, and the other collectives use one for each pair of ranks.
std::unique_ptr<Collective> make_one_sided(std::unique_ptr<Collective> collective, int contexts);

}  // namespace busbw
