#pragma once
// The memory of a run is planned before anything is allocated; what does not fit is reduced or refused, by how much
// said.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

struct MemoryPlan {
  std::uint64_t max_bytes = 0;     // the largest size that fits, at most the one asked for
  std::vector<std::string> notes;  // '#' lines when it was reduced
};

/// Two buffers for each of `ranks` ranks and `work_bytes` must fit into 90 % of `available_bytes`. A list of sizes is
/// never reduced. `scarcest`: Backend::scarcest_memory, named where it does not fit. Throws EnvironmentError when the
/// smallest size does not fit either.
MemoryPlan plan_memory(const RunSettings& settings, int ranks, std::size_t available_bytes, std::size_t work_bytes,
                       const std::string& scarcest = {});

/// The plan of one process of several, of which one may have room for no more than `agreed_bytes`.
MemoryPlan limit_plan(MemoryPlan own, std::uint64_t agreed_bytes);

/// The samples of a row stay in memory until it is written. Throws EnvironmentError when one batch of -n does not fit
/// into 90 % of `available_bytes`.
void require_room_for_samples(const RunSettings& settings, int ranks, std::size_t available_bytes);

}  // namespace busbw
