#pragma once
// Plans the memory of a run before anything is allocated. Sizes that do not fit are reduced or refused, with a message
// that has the figures.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// Sizes that a run can measure with the available memory, in bytes.
struct MemoryPlan {
  std::uint64_t max_bytes = 0;  // largest size that fits, at most the requested one
  std::vector<std::string> notes;  // '#' lines of the table, if the size was reduced
};

/// Reduces the largest size of the sweep until two buffers for each of `ranks` ranks, and `work_bytes`, fit into 90 %
/// of `available_bytes`. `work_bytes` is the backend's own need for these ranks. `least_free_device` is
/// Backend::least_free_device(), for messages. Throws EnvironmentError if the smallest size does not fit, or a size of
/// the list --sizes.
MemoryPlan plan_memory(const RunSettings& settings, int ranks, std::size_t available_bytes, std::size_t work_bytes,
                       const std::string& least_free_device = {});

/// Limits this process's plan to `agreed_bytes`, the maximum of the process with the least memory.
MemoryPlan limit_plan(MemoryPlan plan, std::uint64_t agreed_bytes);

/// Throws EnvironmentError if the samples of all iterations on `ranks` ranks do not fit into 90 % of `available_bytes`.
/// Samples are kept until their row is written.
void require_sample_memory(const RunSettings& settings, int ranks, std::size_t available_bytes);

}  // namespace busbw
