#pragma once
// What was asked for becomes the list of cases: which configurations, in which order, over which sizes.
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/sweep_types.hpp"
#include "common/values/types.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// What the user chose of the data.
struct DataChoice {
  std::vector<Dtype> dtypes;
  std::vector<Redop> redops;
  std::optional<int> root;  // missing: all
};

/// `ranks`: of the smallest group (roots run over these).
Sweep plan_sweep(const DataChoice& data, const RunSettings& settings, const Collective& collective, int ranks);

/// From `min` to `max` by factor, or by step when the factor is 1.
std::vector<std::uint64_t> sizes_between(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t step_factor,
                                         std::uint64_t step_bytes);

}  // namespace busbw
