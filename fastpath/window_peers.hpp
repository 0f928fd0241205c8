#pragma once
// Where a window of NCCL's lies at each rank.
#include <nccl.h>

#include <array>
#include <optional>

#include "fastpath/collective.hpp"
#include "fastpath/real_nccl.hpp"

namespace busbw::fastpath {

/// The begin of every rank's buffer in a window, as the current device sees it.
using WindowPlaces = std::array<char*, kMaxRanks>;

/// Empty where this version of NCCL does not tell: it has no such function (before 2.29), and is not of the version with whose
/// header this library is built either. The same on every rank, as all have the same NCCL. Throws EnvironmentError.
std::optional<WindowPlaces> peers_of(ncclWindow_t window, int ranks, const RealNccl& nccl);

}  // namespace busbw::fastpath
