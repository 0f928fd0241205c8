#pragma once
// Addresses of a symmetric window on each rank.
#include <nccl.h>

#include <array>
#include <optional>

#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// Start address of every rank's buffer in a window, for the current device.
using WindowAddresses = std::array<char*, kMaxRanks>;

/// Returns the addresses of a window, or nothing in one of two cases. The result has the same kind on every rank,
/// because all ranks use the same NCCL and the same links. Throws EnvironmentError.
///
/// - NCCL cannot access all ranks by memory.
/// - NCCL does not report addresses: it is older than 2.29 and not the version of this library's NCCL header.
std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks,
                                                const RealNccl& nccl);

}  // namespace busbw::fastpath
