#pragma once
// Joins a communicator as nccl-tests does, with the configuration from the command line.
#include <nccl.h>

#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// Joins the communicator `id` as `rank` of `ranks`, on the current device. All ranks must call it at the same time.
/// Stores the handle in `*comm` and returns NCCL's result.
ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& flags, const ncclUniqueId& id, int rank,
                               int ranks, ncclComm_t* comm);

}  // namespace busbw
