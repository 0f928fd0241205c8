#pragma once
// Joins a communicator as nccl-tests does, with the configuration from the command line.
#include <nccl.h>

#include <span>
#include <vector>

#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Makes the unique ids of a communicator of `group` at `roots` of its ranks, and returns all of them on every rank.
/// Stores NCCL's result in `result`.
std::vector<ncclUniqueId> share_unique_ids(const NcclLibrary& library, Team& group, int roots, ncclResult_t& result);

/// Joins the communicator of these ids as `rank` of `ranks`, on the current device. All ranks must call it at the same
/// time. Stores the handle in `*comm` and returns NCCL's result.
ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& flags, std::span<ncclUniqueId> ids,
                               int rank, int ranks, ncclComm_t* comm);

/// Grows `parent` to `ranks` ranks; ncclCommGrow documents null and -1.
ncclResult_t grow_communicator(const NcclLibrary& library, const NcclOptions& flags, ncclComm_t parent, int ranks,
                               const ncclUniqueId* id, int rank, ncclComm_t* comm);

}  // namespace busbw
