#pragma once
// Queries of the free memory of GPUs, in this process. The GPU survey and the NCCL backend use them.
#include <cstddef>
#include <future>
#include <optional>
#include <vector>

namespace busbw {

/// Starts one query per GPU (by CUDA's number), each in its own thread. A query creates the GPU's CUDA context, which
/// takes a fraction of a second and is needed later. It returns the free bytes, or nothing if CUDA does not report
/// them.
std::vector<std::future<std::optional<std::size_t>>> start_free_memory_queries(const std::vector<int>& devices);

}  // namespace busbw
