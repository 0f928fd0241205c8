#pragma once
// Addresses of every rank's buffer in a symmetric window. A symmetric window is a buffer that all ranks of a
// communicator register together. Each rank's address space then has the buffers of all ranks that NCCL can access
// by loads and stores.
#include <nccl.h>

#include <array>
#include <optional>

#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// Start address of every rank's buffer in a window, by rank, as mapped for the current device.
using WindowAddresses = std::array<char*, kMaxRanks>;

/// Returns the addresses of a window. Throws EnvironmentError if NCCL or CUDA fails. Returns nothing in these cases, on
/// every rank alike if all ranks use the same NCCL, settings and links:
///
/// - NCCL cannot access the memory of all ranks, or returns a null address.
/// - NCCL is older than 2.29, so it has no function for addresses, and its window structure cannot be read instead.
///   Reading needs symmetric memory (NCCL_CUMEM_ENABLE), and the major and minor version of the header of this build.
std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks,
                                                const RealNccl& nccl);

}  // namespace busbw::fastpath
