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

/// Empty where NCCL does not tell: its version has no such function (before 2.29), and is not that of the header that this
/// library is built with either; or a rank is not one that it reaches by memory. The same on every rank, as all have the same
/// NCCL and are joined alike. Throws EnvironmentError.
std::optional<WindowPlaces> peers_of(ncclWindow_t window, int ranks, const RealNccl& nccl);

}  // namespace busbw::fastpath
