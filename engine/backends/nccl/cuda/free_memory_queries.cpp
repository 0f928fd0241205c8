// Queries the free memory of GPUs in parallel, because creating a CUDA context takes a fraction of a second.
#include "backends/nccl/cuda/free_memory_queries.hpp"

#include <cuda_runtime_api.h>

#include "backends/nccl/cuda/cuda.hpp"

namespace busbw {
namespace {

std::optional<std::size_t> query_free_memory(int device) {
  if (cudaSetDevice(device) != cudaSuccess) return std::nullopt;
  return free_memory_bytes();
}

}  // namespace

std::vector<std::future<std::optional<std::size_t>>> start_free_memory_queries(const std::vector<int>& devices) {
  std::vector<std::future<std::optional<std::size_t>>> queries;
  for (const int device : devices) queries.push_back(std::async(std::launch::async, query_free_memory, device));
  return queries;
}

}  // namespace busbw
