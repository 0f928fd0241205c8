#pragma once
// Life of NCCL communicators, for comm_ops.
#include <memory>
#include <string>

#include "backends/communicator_lifecycle.hpp"
#include "backends/nccl/cuda/live_communicators.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// Makes the object of a rank, in the rank's thread with its GPU as current device. `rank_text`: "rank 3 on GPU
/// 0000:0f:00". `max_bytes`: of the input of an all_reduce. All references must outlive it.
std::unique_ptr<CommunicatorLifecycle> make_nccl_lifecycle(const NcclLibrary& library, const NcclOptions& flags,
                                                           const Team& world, std::string rank_text,
                                                           LiveCommunicators& live_communicators,
                                                           std::size_t max_bytes);

}  // namespace busbw
