#pragma once
// Plans a sweep: all configurations (type, operator, root) and sizes that one run measures, in order.
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/sweep_types.hpp"
#include "common/values/types.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// The user's choice of types, operators and roots.
struct DataChoice {
  std::vector<Dtype> dtypes;
  std::vector<Redop> redops;
  std::optional<int> root;  // none: all ranks
};

/// Plans the sweep. `ranks` is the size of the smallest group; roots run over its ranks.
Sweep plan_sweep(const DataChoice& data, const RunSettings& settings, const Collective& collective, int ranks);

/// Sizes from `min_bytes` to `max_bytes` by factor, or by step if the factor is 1.
std::vector<std::uint64_t> sizes_between(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t step_factor,
                                         std::uint64_t step_bytes);

}  // namespace busbw
