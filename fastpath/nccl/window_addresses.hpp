#pragma once
// Where a window of NCCL's lies at each rank.
#include <nccl.h>

#include <array>
#include <optional>

#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// The begin of every rank's buffer in a window, as the current device sees it.
using WindowAddresses = std::array<char*, kMaxRanks>;

/// Empty where NCCL does not reach all ranks by memory, or does not tell where: its version has no function for that
/// (before 2.29), and is not that of the header that this library is built with either. The same on every rank, as all
/// have the same NCCL and are joined alike. Throws EnvironmentError.
std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks, const RealNccl& nccl);

}  // namespace busbw::fastpath
