#pragma once
// Queries of the free memory of GPUs, in this process.
#include <cstddef>
#include <future>
#include <optional>
#include <vector>

namespace busbw {

/// Starts one query per GPU, each in its own thread. The first query creates CUDA's context, which takes a fraction of
/// a second and is needed anyway. A query returns nothing if CUDA does not report the memory.
std::vector<std::future<std::optional<std::size_t>>> start_free_memory_queries(int first_device, int devices);

}  // namespace busbw
