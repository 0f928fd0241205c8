#pragma once
// Options become the list of cases: which configurations, in which order, over which sizes.
#include <cstdint>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/configuration.hpp"
#include "options.hpp"

namespace busbw {

/// `ranks`: of the smallest group (roots run over these).
Sweep plan_sweep(const Options& options, const Collective& collective, int ranks);

/// From `min` to `max` by factor, or by step when the factor is 1.
std::vector<std::uint64_t> sizes_between(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t step_factor,
                                         std::uint64_t step_bytes);

}  // namespace busbw
