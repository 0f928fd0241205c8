#pragma once
// What memory is free on GPUs, in this process.
#include <cstddef>
#include <future>
#include <optional>
#include <vector>

namespace busbw {

/// Begins to look, each GPU in a thread of its own: the first look makes CUDA's context on it, which takes a fraction
/// of a second and is needed anyway. Nothing where CUDA does not say.
std::vector<std::future<std::optional<std::size_t>>> start_free_memory_queries(int first_device, int devices);

}  // namespace busbw
