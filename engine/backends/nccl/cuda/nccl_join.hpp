#pragma once
// Joining a communicator as nccl-tests does, with what the command line adds to its configuration.
#include <nccl.h>

#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// Joins under `id`; all `ranks` do so at the same time. The current device is the rank's. Returns NCCL's own result.
ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& flags, const ncclUniqueId& id, int rank,
                               int ranks, ncclComm_t* comm);

}  // namespace busbw
