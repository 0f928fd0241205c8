#pragma once
// Joins a communicator as nccl-tests does, with the configuration from the command line.
#include <nccl.h>

#include <span>
#include <vector>

#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Unique ids of a communicator, and the result of NCCL's call that made this rank's id.
struct SharedUniqueIds {
  ncclResult_t result = ncclSuccess;  // ncclSuccess on ranks that made no id
  std::vector<ncclUniqueId> ids;
};

/// Makes the unique ids of a communicator of `group`: `roots` ranks make one id each. Returns all ids on every rank.
SharedUniqueIds share_unique_ids(const NcclLibrary& library, Team& group, int roots);

/// True if join_communicator passes a configuration (ncclConfig_t) to the library. Otherwise it ignores its `options`.
bool reads_config(const NcclLibrary& library);

/// Joins the communicator of these ids as `rank` of `ranks`, on the current device. All ranks must call this function.
/// It returns after all ranks have called it. With `survives_losses`, it may return ncclInProgress earlier. Stores the
/// handle in `*comm` and returns NCCL's result.
ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& options, std::span<ncclUniqueId> ids,
                               int rank, int ranks, ncclComm_t* comm);

/// Grows `parent` to `ranks` ranks. ncclCommGrow requires these arguments:
///
///   calling rank                     parent   id     rank
///   rank of the parent, made `id`    set      set    -1
///   other rank of the parent         set      null   -1
///   new rank                         null     set    its rank in the new communicator
ncclResult_t grow_communicator(const NcclLibrary& library, const NcclOptions& options, ncclComm_t parent, int ranks,
                               const ncclUniqueId* id, int rank, ncclComm_t* comm);

}  // namespace busbw
